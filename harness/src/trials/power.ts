import { fstatSync, lstatSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { FileCalls } from "@espalier/jsonl-stream/node";
import { message, SessionTree } from "@espalier/session-tree";
import { fileStore } from "@espalier/session-tree/node";
import { testHeader } from "@espalier/session-tree/testing";
import { type Harness, SeededRandom } from "../harness.ts";
import { judgeAfterOutage } from "../judge.ts";
import { note, passingCalls, SystemError } from "../stores.ts";

/** The power fails at a random call of a simulated disk. Data without a sync can be whole, a part, NUL bytes, or lost. */
export const power: Harness = {
  async run({ folder, seed, isShort, count }, findings) {
    for (let round = 0; round < (count ?? (isShort ? 20 : 200)); round += 1) {
      const random = new SeededRandom(seed * 7919 + round);
      const before = mkdtempSync(join(folder, "before-"));
      const after = mkdtempSync(join(folder, "after-"));
      const disk = new ForgetfulDisk(before, 5 + random.below(220));
      const durable: string[] = [];
      let isCreated = false;
      try {
        const store = fileStore({ home: before, calls: disk.calls });
        const file = join(before, "s.jsonl");
        const session = await SessionTree.open(await store.create(testHeader("s1"), [], file));
        isCreated = true;
        await Promise.all([write(session, random, durable), write(session, random, durable)]);
      } catch (error) {
        // Nothing is acknowledged once the power is gone.
        if (!disk.isCut) throw error;
      }
      disk.restore(after, random);
      findings.count("cuts");
      if (!isCreated) {
        findings.count("before the session was made");
        continue;
      }
      findings.count("acked at fsync", durable.length);
      const here = findings.at(`Cut ${round}`);
      await judgeAfterOutage(here, join(after, "s.jsonl"), ({ tree }) => {
        const lost = durable.filter((id) => !tree.has(id)).length;
        here.expect(lost === 0, `${lost} entries acknowledged at fsync are lost.`);
      });
    }
  },
};

async function write(session: SessionTree, random: SeededRandom, durable: string[]): Promise<void> {
  for (let n = 0; n < 200; n += 1) {
    const content = "x".repeat(random.below(6_000));
    if (random.below(2) === 0) await session.append(note(content));
    else {
      const [entry] = await session.append(message.of({ message: { role: "user", content, timestamp: n } }));
      durable.push(entry!.id);
    }
  }
  throw new Error("The power did not go.");
}

/** Calls that fail after the power loss, in addition to those that sync. */
const POWERED: ReadonlySet<string> = new Set([
  "linkSync",
  "lstatSync",
  "openSync",
  "renameSync",
  "unlinkSync",
  "writeSync",
]);

/** Bytes that reach a disk together. */
const PAGE = 4_096;

/**
 * A disk that remembers what was synced and may forget the rest: for each file the synced length, for the folder the
 * names at its last sync. Files are only appended to, or written before they get their name.
 */
class ForgetfulDisk {
  readonly calls: FileCalls;
  readonly #folder: string;
  readonly #cutAt: number;
  #made = 0;
  /** Safe bytes, by inode. */
  readonly #synced = new Map<number, number>();
  /** Safe names, with the inodes they lead to. */
  #names = new Map<string, number>();

  /** @param cutAt calls before the power goes */
  constructor(folder: string, cutAt: number) {
    this.#folder = folder;
    this.#cutAt = cutAt;
    this.calls = passingCalls((name, call, args) => {
      const [fd] = args as [number];
      if (name === "fdatasync" || name === "fsync") return this.#syncSlowly(fd);
      if (name === "fdatasyncSync" || name === "fsyncSync") return this.#powered(() => this.#sync(fd)());
      return POWERED.has(name) ? this.#powered(() => call(...args)) : call(...args);
    });
  }

  get isCut(): boolean {
    return this.#made > this.#cutAt;
  }

  /** Fills an empty folder with what a restart finds. */
  restore(folder: string, random: SeededRandom): void {
    const current = this.#currentNames();
    const contents = new Map(
      [...current].map(([name, inode]) => [inode, readFileSync(join(this.#folder, name))]),
    );
    // Names that were not synced may have been written all the same.
    const names = random.below(2) === 0 ? this.#names : new Map([...current, ...this.#names]);
    for (const [name, inode] of names) {
      const bytes = contents.get(inode) ?? new Uint8Array();
      const kept = partlyWritten(bytes, this.#synced.get(inode) ?? 0, random);
      writeFileSync(join(folder, name), kept, { mode: 0o600 });
    }
  }

  /** Begins a sync; returns the function that ends it. Only what was there when it began is safe. */
  #sync(fd: number): () => void {
    const facts = fstatSync(fd);
    const names = facts.isDirectory() ? this.#currentNames() : undefined;
    return () => {
      if (names) this.#names = names;
      else this.#synced.set(facts.ino, Math.max(facts.size, this.#synced.get(facts.ino) ?? 0));
    };
  }

  /** Takes its time, during which others write. */
  async #syncSlowly(fd: number): Promise<void> {
    const end = this.#powered(() => this.#sync(fd));
    await new Promise((resolve) => setTimeout(resolve, 1));
    this.#powered(end);
  }

  #currentNames(): Map<string, number> {
    const files = readdirSync(this.#folder, { withFileTypes: true }).filter((entry) => entry.isFile());
    return new Map(files.map(({ name }) => [name, lstatSync(join(this.#folder, name)).ino]));
  }

  #powered<Result>(call: () => Result): Result {
    this.#made += 1;
    if (this.isCut) throw new SystemError("EIO");
    return call();
  }
}

/** Synced bytes, and a random beginning of the rest, in which pages may have stayed NUL. */
function partlyWritten(bytes: Uint8Array, synced: number, random: SeededRandom): Uint8Array {
  const kept = Uint8Array.from(bytes.subarray(0, synced + random.below(bytes.length - synced + 1)));
  for (let page = Math.floor(synced / PAGE); page * PAGE < kept.length; page += 1) {
    if (random.below(3) > 0) continue;
    kept.fill(0, Math.max(synced, page * PAGE), Math.min(kept.length, (page + 1) * PAGE));
  }
  return kept;
}
