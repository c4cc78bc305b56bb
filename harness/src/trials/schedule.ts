import { bytesView, EspalierError, scanLines } from "@espalier/jsonl-stream";
import { readLineParts, type SessionStore } from "@espalier/session-tree";
import { testLine } from "@espalier/session-tree/testing";
import type { Findings, Harness, HarnessOptions } from "../harness.ts";
import { oldSession, type StoreName, sessionBytes, storeNamed } from "../stores.ts";
import { alone, FOLDER, type Machine, Moment, type Script } from "./schedule/machine.ts";
import { type Bounds, type End, searchSchedules } from "./schedule/search.ts";
import { scheduleStatements } from "./schedule/statements.ts";

/** Programs of some processes, and the bounds of the search for an order in which they fail, in both forms of the trial. */
type Scenario = [name: string, start: Moment, scripts: Script[], short: Bounds, long: Bounds];

const NAME = "session.jsonl";
const FILE = `${FOLDER}/${NAME}`;

/** A process that is dead from the beginning and left files. */
const GHOST = 50;

/** The process that judges the end. */
const JUDGE = 60;

/** Bytes of one write of the store that writes in pieces: fewer than the longer entries have. */
const PIECE = 200;

/** Faults after which a scenario ends. */
const ENOUGH = 3;

/**
 * Every order of the calls of two or three processes to the file system, up to a bound, with deaths and failed calls, for
 * appending, the lease and bringing an old file up to date; and every order of statements of two clients of a database.
 */
export const schedule: Harness = {
  async run(options, findings) {
    for (const scenario of scenarios(options.store)) {
      await search(scenario, options, findings);
      // A broken store is detected.
      if (options.store !== "file" && findings.faults.length > 0) return;
    }
    // The other stores are broken files.
    if (options.store === "file") await scheduleStatements(options.isShort, findings);
  },
};

async function search(scenario: Scenario, { isShort }: HarnessOptions, findings: Findings): Promise<void> {
  const [name, start, scripts, short, long] = scenario;
  const bounds = isShort ? short : long;
  const judged = new Set<string>();
  let faults = 0;
  const states = await searchSchedules(start, scripts, bounds, async (end) => {
    const said = end.processes.map(({ isDead, failure }) => `${isDead}${codeOf(failure)}`);
    const key = `${end.moment.world}#${[...end.acknowledged].sort().join()}#${said.join()}`;
    if (end.problem === undefined && judged.size === judged.add(key).size) return false;
    for await (const sentence of judge(end, start, bounds)) {
      faults += 1;
      findings.fault(`${name}: ${sentence} Steps: ${end.trace()}`);
    }
    return faults >= ENOUGH;
  });
  findings.count(`${name}: states`, states);
  findings.count(`${name}: ends`, judged.size);
}

const codeOf = (failure: unknown): string =>
  failure === undefined ? "" : failure instanceof EspalierError ? failure.code : `raw ${failure}`;

/** Sentences for what is wrong with an end. */
async function* judge(end: End, start: Moment, { deaths, failures }: Bounds): AsyncGenerator<string> {
  const { moment, problem } = end;
  if (problem !== undefined) return yield problem;
  const expected = failures > 0 ? undefined : ["busy", "changed"];
  for (const { failure } of end.processes) {
    if (failure === undefined) continue;
    const isTyped = failure instanceof EspalierError;
    if (!isTyped) yield `An error has no code: ${(failure as Error).stack}.`;
    else if (expected && !expected.includes(failure.code))
      yield `A process failed with ${failure.code} although no call did: ${failure.message}`;
  }
  const found = entriesIn(moment.bytesOf(NAME)!);
  for (const id of end.acknowledged) {
    const times = found.filter((each) => each.id === id);
    const whole = times.filter(({ from }) => from === 0);
    if (times.length === 0) yield `The acknowledged entry ${id} is lost.`;
    else if (whole.length === 0) yield `The acknowledged entry ${id} is glued to another line.`;
    // An entry that was glued to another's line is written once more.
    if (whole.length > 1) yield `The entry ${id} is there ${whole.length} times.`;
  }
  const [before, kept] = [start.bytesOf(NAME)!, moment.bytesOf(`${NAME}.v1`)];
  const isOld = !isPrefix(before, moment.bytesOf(NAME)!);
  if (isOld && (!kept || Buffer.compare(kept, before) !== 0)) yield "The original of an old file is gone.";
  const isClean = deaths === 0 || !end.processes.some(({ isDead }) => isDead);
  const left = moment.files.filter((file) => file !== NAME && file !== `${NAME}.v1`);
  if (isClean && left.length > 0) yield `${left.join(", ")} stayed.`;
  yield* await alone(moment, JUDGE, goesOn);
}

/** All processes have ended or died: another one can write and hold the session. */
async function goesOn(work: Machine): Promise<string[]> {
  const store = storeNamed("file", FOLDER, work);
  try {
    const log = await store.open({ file: FILE }, "write");
    const from = (await log.append([testLine("last")])).offset;
    await log.close();
    const lease = await store.lease({ file: FILE });
    await lease.release();
    return from > 0 ? [] : ["Nothing was there any more."];
  } catch (error) {
    return [`Afterwards the session cannot be written: ${codeOf(error)}, ${(error as Error).message}`];
  }
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

const isPrefix = (one: Uint8Array, other: Uint8Array): boolean =>
  Buffer.compare(one, other.subarray(0, one.length)) === 0;

const current = Moment.of({ [NAME]: sessionBytes([]) });
const old = Moment.of({ [NAME]: oldSession });
/** A session with a lease, and a candidate for one, of a process that is dead. */
const abandoned = Moment.of({
  [NAME]: sessionBytes([]),
  [`${NAME}.lease`]: leaseOf(GHOST),
  [`${NAME}.lease-00000000050f`]: leaseOf(GHOST),
}).without(GHOST);

function leaseOf(number: number): Uint8Array {
  const identity = { pid: number + 1, processStart: "1", boot: "1", host: "simulated", pidSpace: "1" };
  const lease = { ...identity, since: "2026-01-01T00:00:00.000Z", owner: "00000000050e", isBrief: false };
  return Buffer.from(`${JSON.stringify(lease)}\n`);
}

const FAILING = ["EIO", "EINTR", "EMFILE", "short"];

function scenarios(name: StoreName): Scenario[] {
  const storeOn = (work: Machine) => storeNamed(name, FOLDER, { ...work, piece: PIECE, later: setImmediate });
  const append =
    (...entries: [string, number][]): Script =>
    async (work) => {
      const store = storeOn(work);
      for (const [id, size] of entries) await appended(store, id, size, work.acknowledge);
    };
  const lease: Script = async (work) => {
    const held = await storeOn(work).lease({ file: FILE });
    work.hold(true);
    // A step that cannot fail, so that there is a moment in which it is held.
    work.processes.mayBeRunning(work.processes.own());
    work.hold(false);
    await held.release();
  };
  const one = append(["a", 10]);
  const two = append(["b", 10]);
  const three = append(["c", 10]);
  const dying = { deaths: 1, failures: 0, errors: [] };
  const failing = { deaths: 0, failures: 1, errors: FAILING };
  const bound = (bounds: Bounds, switches: number): Bounds => ({ ...bounds, switches });
  const calm = bound({ ...dying, deaths: 0 }, 1);
  const longOnes = [append(["a", 10], ["b", 300]), append(["c", 300])];
  const failingOnes = [append(["a", 300]), append(["c", 10])];
  return [
    ["append by two", current, longOnes, bound(dying, 2), dying],
    ["append by two, a call fails", current, failingOnes, bound(failing, 1), failing],
    ["lease by two", abandoned, [lease, lease], bound(dying, 2), dying],
    ["lease by two, a call fails", abandoned, [lease, lease], bound(failing, 1), bound(failing, 3)],
    ["upgrade by two", old, [one, two], bound(dying, 1), bound(dying, 4)],
    [
      "upgrade by two, a call fails",
      old,
      [one, two],
      bound({ ...failing, errors: ["EIO"] }, 1),
      bound(failing, 2),
    ],
    ["upgrade by three", old, [one, two, three], calm, bound(dying, 1)],
    ["append by three", current, [one, two, three], bound(dying, 1), bound(dying, 2)],
    ["lease by three", abandoned, [lease, lease, lease], calm, bound(dying, 2)],
  ];
}

/** Appends one entry, and opens the session anew where another process has brought it to the current format. */
async function appended(
  store: SessionStore,
  id: string,
  size: number,
  acknowledge: (id: string) => void,
): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    const log = await store.open({ file: FILE }, "write");
    try {
      await log.append([testLine(id, null, "x".repeat(size))]);
      acknowledge(id);
      await log.close();
      return;
    } catch (error) {
      await log.close();
      if (!(error instanceof EspalierError) || error.code !== "changed" || attempt === 3) throw error;
    }
  }
}
