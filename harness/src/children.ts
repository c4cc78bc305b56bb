import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { writeSync } from "node:fs";
import { createInterface } from "node:readline";
import { EspalierError } from "@espalier/jsonl-stream";
import { custom, type Entry, SessionTree } from "@espalier/session-tree";
import { openPostgresStore } from "@espalier/store-postgres";
import { SeededRandom } from "./harness.ts";
import { type StoreName, storeNamed } from "./stores.ts";

/**
 * `appending <address> <session> <name> <from> <count>`: appends the entries `<name>-<n>`, one under the other, and says
 * each number when it is acknowledged. The same entry has the same line every time.
 */
export async function append([address, ref, name, from, count]: string[]): Promise<void> {
  const store = openPostgresStore(address!, { reconnectMs: 60_000 });
  const log = await store.open({ file: ref! }, "write");
  writeSync(1, "ready\n");
  for (let n = Number(from); n < Number(count); n += 1) {
    await log.append([lineOf(name!, n)]);
    writeSync(1, `${n}\n`);
  }
  await store.close();
}

function lineOf(name: string, n: number): string {
  return JSON.stringify({
    type: "custom",
    id: `${name}-${n}`,
    parentId: n === 0 ? null : `${name}-${n - 1}`,
    timestamp: "2026-01-01T00:00:00.000Z",
    customType: "trial",
    data: "x".repeat(200 + ((n * 7919) % 2_000)),
  });
}

/** `filling <home> <file> <count> <size>`: appends until nothing fits, says each id or the code of the failure. */
export async function fillUp([home, file, count, size]: string[]): Promise<void> {
  const session = await SessionTree.open(await storeNamed("file", home!).open({ file: file! }, "write"));
  for (let n = 0; n < Number(count); n += 1) {
    try {
      const entry = custom.of({ customType: "trial", data: "x".repeat(Number(size)) });
      const [written] = (await session.append(entry)) as [Entry];
      writeSync(1, `${JSON.stringify({ id: written.id })}\n`);
    } catch (error) {
      if (!(error instanceof EspalierError)) throw error;
      writeSync(1, `${JSON.stringify({ code: error.code })}\n`);
    }
  }
  await session.close();
}

/** `sharing <store> <home> <file> <seed> <from> <count> <smallest> <largest>`: appends entries, and says the number of each. */
export async function shareLines([
  storeName,
  home,
  file,
  seed,
  from,
  count,
  smallest,
  largest,
]: string[]): Promise<void> {
  const random = new SeededRandom(Number(seed));
  const store = storeNamed(storeName as StoreName, home!);
  const session = await SessionTree.open(await store.open({ file: file! }, "write"));
  writeSync(1, "ready\n");
  for (let n = Number(from); n < Number(count); n += 1) {
    const size = Math.round(Number(smallest) * (Number(largest) / Number(smallest)) ** random.next());
    const id = `w${seed}x${n}`;
    await session.append(
      { ...custom.of({ customType: "trial", data: "x".repeat(size) }), id, parentId: session.leafId },
      { durability: "flush" },
    );
    writeSync(1, `${n}\n`);
  }
  await session.close();
}

/** `taking <home> <file>`: at each line it is told, tries to take the lease, says `won` or `busy`; at `release` lets go. */
export async function take([home, file]: string[]): Promise<void> {
  const store = storeNamed("file", home!);
  let release = async (): Promise<void> => undefined;
  writeSync(1, "ready\n");
  for await (const line of createInterface({ input: process.stdin })) {
    if (line === "release") {
      await release();
      writeSync(1, "released\n");
      continue;
    }
    // All are told the same moment, so that they meet.
    while (Date.now() < Number(line));
    try {
      const lease = await store.lease({ file: file! });
      release = () => lease.release();
      writeSync(1, "won\n");
    } catch (error) {
      if (!(error instanceof EspalierError)) throw error;
      writeSync(1, `${error.code}\n`);
    }
  }
}

/** A process of the trial's own program, with the lines it says. */
export class Child {
  readonly process: ChildProcess;
  readonly lines: string[] = [];
  /** Resolves when it is over, and everything it said was heard. */
  readonly over: Promise<unknown>;
  #rest = "";
  #heard: (() => void)[] = [];

  constructor(program: string, args: readonly string[], options: { shell?: string; isMute?: boolean } = {}) {
    const own = [program, "child", ...args];
    // What a broken store makes its process say is of no interest.
    const stdio: ["pipe", "pipe", "ignore" | "inherit"] = [
      "pipe",
      "pipe",
      options.isMute ? "ignore" : "inherit",
    ];
    this.process = options.shell
      ? spawn("sh", ["-c", `${options.shell}; exec "$0" "$@"`, process.execPath, ...own], { stdio })
      : spawn(process.execPath, own, { stdio });
    this.process.stdout!.setEncoding("utf8").on("data", (text: string) => this.#hear(text));
    // A child that was killed does not read what is still said to it.
    this.process.stdin!.on("error", () => undefined);
    this.over = once(this.process, "close");
  }

  say(line: string): void {
    this.process.stdin!.write(`${line}\n`);
  }

  /** The line at a position, as soon as it was said; undefined when the child is over before. */
  async line(at: number): Promise<string | undefined> {
    let isOver = false;
    const over = this.over.then(() => {
      isOver = true;
    });
    while (this.lines.length <= at && !isOver)
      await Promise.race([over, new Promise<void>((resolve) => this.#heard.push(resolve))]);
    return this.lines[at];
  }

  #hear(text: string): void {
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop()!;
    this.lines.push(...lines);
    for (const heard of this.#heard.splice(0)) heard();
  }
}
