import { bytesView, EspalierError, scanLines } from "@espalier/jsonl-stream";
import { readLineParts, type SessionStore } from "@espalier/session-tree";
import { testLine } from "@espalier/session-tree/testing";

/** One of several that write a session; it reports what is acknowledged, and whether it holds the lease. */
export interface Writer {
  readonly store: SessionStore;
  acknowledge(id: string): void;
  hold(isHeld: boolean): void;
}

/** Appends an entry, and opens the session anew where another writer has brought it to the current format. */
export async function append(writer: Writer, file: string, id: string, size: number): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    const log = await writer.store.open({ file }, "write");
    try {
      await log.append([testLine(id, null, "x".repeat(size))]);
      writer.acknowledge(id);
      await log.close();
      return;
    } catch (error) {
      await log.close();
      if (codeOf(error) !== "changed" || attempt === 3) throw error;
    }
  }
}

/** Holds the lease during a step. */
export async function lease(writer: Writer, file: string, step: () => Promise<unknown>): Promise<void> {
  const held = await writer.store.lease({ file });
  writer.hold(true);
  await step();
  writer.hold(false);
  await held.release();
}

export const codeOf = (failure: unknown): string =>
  failure === undefined ? "" : failure instanceof EspalierError ? failure.code : `raw ${failure}`;

/** A session that several have written; none of them makes a step any more. */
interface Written {
  file: string;
  /** A sound store. */
  store: SessionStore;
  /** Returns the stored bytes of a session; undefined where there is none. */
  read: (file: string) => Promise<Uint8Array | undefined>;
  /** The bytes before they began. */
  before: Uint8Array;
  acknowledged: readonly string[];
  /** Errors with which writers ended. */
  failures: readonly unknown[];
  /** Codes of errors that are no faults; undefined: all. */
  expected: readonly string[] | undefined;
}

/** Returns sentences for what is wrong with a session, which another writer writes and holds afterwards. */
export async function judgeWritten(written: Written): Promise<string[]> {
  const { file, store, read, before, acknowledged, failures, expected } = written;
  const problems: string[] = [];
  for (const failure of failures) {
    const isExpected = !expected || expected.includes(codeOf(failure));
    if (!(failure instanceof EspalierError))
      problems.push(`An error has no code: ${(failure as Error).stack}.`);
    else if (!isExpected)
      problems.push(`A writer failed with ${failure.code} although no call did: ${failure.message}`);
  }
  const now = (await read(file))!;
  const found = entriesIn(now);
  for (const id of acknowledged) {
    const times = found.filter((each) => each.id === id);
    const whole = times.filter(({ from }) => from === 0);
    if (times.length === 0) problems.push(`The acknowledged entry ${id} is lost.`);
    else if (whole.length === 0) problems.push(`The acknowledged entry ${id} is glued to another line.`);
    // An entry that was glued to another's line is written once more.
    if (whole.length > 1) problems.push(`The entry ${id} is there ${whole.length} times.`);
  }
  const isUpgraded = Buffer.compare(before, now.subarray(0, before.length)) !== 0;
  const kept = isUpgraded ? await read(`${file}.v1`).catch(() => undefined) : before;
  if (!kept || Buffer.compare(kept, before) !== 0) problems.push("The original of an old session is gone.");
  try {
    const log = await store.open({ file }, "write");
    const { offset } = await log.append([testLine("last")]);
    await log.close();
    await (await store.lease({ file })).release();
    if (offset === 0) problems.push("Nothing was there any more.");
  } catch (error) {
    problems.push(`Afterwards the session cannot be written: ${codeOf(error)}, ${(error as Error).message}`);
  }
  return problems;
}

function entriesIn(bytes: Uint8Array): { id: string; from: number }[] {
  const found = [];
  // One by one: the bytes of a line are good until the next is asked for.
  for (const line of scanLines(bytesView(bytes))) {
    for (const part of readLineParts(line.bytes))
      if (part.is === "entry") found.push({ id: part.entry.id, from: part.from });
  }
  return found;
}
