import { fstatSync, lstatSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { diagnose } from "@espalier/engine";
import { type FileCalls, nodeFileCalls } from "@espalier/jsonl-stream/node";
import { custom, message, SessionTree } from "@espalier/session-tree";
import { fileStore } from "@espalier/session-tree/node";
import { Findings, type Harness, SeededRandom } from "./harness.ts";
import { headerOf } from "./stores.ts";

/** The power goes at a random call of a simulated disk; what was not synced may be there, in part, as NUL bytes, or not at all. */
export const power: Harness = async ({ folder, seed, isShort, count }) => {
  const findings = new Findings();
  for (let round = 0; round < (count ?? (isShort ? 20 : 200)); round += 1) {
    const random = new SeededRandom(seed * 7919 + round);
    const before = join(folder, `before${round}`);
    const after = join(folder, `after${round}`);
    mkdirSync(before);
    mkdirSync(after);
    const disk = new ForgetfulDisk(before, 5 + random.below(220));
    const durable: string[] = [];
    let isCreated = false;
    try {
      const store = fileStore({ home: before, calls: disk.calls });
      const session = await SessionTree.open(await store.create(headerOf("s1"), [], join(before, "s.jsonl")));
      isCreated = true;
      await Promise.all([writer(session, random, durable), writer(session, random, durable)]);
    } catch (error) {
      // Nothing is acknowledged any more once the power is gone.
      if (!disk.isCut) throw error;
    }
    disk.restore(after, random);
    findings.count("cuts");
    if (!isCreated) {
      findings.count("before the session was made");
      continue;
    }
    findings.count("acked at fsync", durable.length);
    const when = `Cut ${round}`;
    await judgeAfterCut(findings, join(after, "s.jsonl"), when, ({ tree }) => {
      const lost = durable.filter((id) => !tree.has(id)).length;
      findings.expect(lost === 0, () => `${when}: ${lost} entries acknowledged at fsync are lost.`);
    });
  }
  return findings;
};

async function writer(session: SessionTree, random: SeededRandom, durable: string[]): Promise<void> {
  for (let n = 0; n < 200; n += 1) {
    const text = "x".repeat(random.below(6_000));
    if (random.below(2) === 0) await session.append(custom.of({ customType: "trial", data: text }));
    else {
      const [entry] = await session.append(
        message.of({ message: { role: "user", content: text, timestamp: n } }),
      );
      durable.push(entry!.id);
    }
  }
  throw new PowerCut();
}

/** Bytes that reach a disk together. */
const PAGE = 4_096;

/** What every call throws once the power is gone. */
class PowerCut extends Error {
  override readonly name = "PowerCut";
  readonly code = "EIO";
  constructor() {
    super("The power is gone.");
  }
}

/**
 * A disk that remembers what was synced and may forget the rest: for each file how far it was synced, for the folder
 * the names it had when it was synced. Files are only appended to, or written before they get their name.
 */
class ForgetfulDisk {
  readonly calls: FileCalls;
  readonly #folder: string;
  readonly #cutAt: number;
  #made = 0;
  /** By inode: bytes that are safe. */
  readonly #synced = new Map<number, number>();
  /** Names that are safe, and the inodes they lead to. */
  #names = new Map<string, number>();

  /** @param cutAt after so many calls the power goes */
  constructor(folder: string, cutAt: number) {
    this.#folder = folder;
    this.#cutAt = cutAt;
    const node = nodeFileCalls;
    this.calls = {
      ...node,
      writeSync: (...args) => this.#powered(() => node.writeSync(...args)),
      openSync: (...args) => this.#powered(() => node.openSync(...args)),
      linkSync: (...args) => this.#powered(() => node.linkSync(...args)),
      renameSync: (...args) => this.#powered(() => node.renameSync(...args)),
      unlinkSync: (...args) => this.#powered(() => node.unlinkSync(...args)),
      lstatSync: (...args) => this.#powered(() => node.lstatSync(...args)),
      fsyncSync: (fd) => this.#powered(() => this.#sync(fd)),
      fdatasyncSync: (fd) => this.#powered(() => this.#sync(fd)),
      // Takes its time, during which others write: only what was there when it began is safe.
      fdatasync: async (fd) => {
        const { ino, size } = this.#powered(() => fstatSync(fd));
        await new Promise((resolve) => setTimeout(resolve, 1));
        this.#powered(() => this.#synced.set(ino, Math.max(size, this.#synced.get(ino) ?? 0)));
      },
    };
  }

  get isCut(): boolean {
    return this.#made > this.#cutAt;
  }

  /** Puts into an empty folder what a restart finds. */
  restore(folder: string, random: SeededRandom): void {
    // Names that were not synced may have been written all the same.
    const names = random.below(2) === 0 ? this.#names : new Map([...this.#currentNames(), ...this.#names]);
    const contents = this.#contents();
    for (const [name, inode] of names) {
      const bytes = contents.get(inode) ?? new Uint8Array();
      writeFileSync(join(folder, name), remembered(bytes, this.#synced.get(inode) ?? 0, random), {
        mode: 0o600,
      });
    }
  }

  #sync(fd: number): void {
    const facts = fstatSync(fd);
    if (facts.isDirectory()) this.#names = this.#currentNames();
    else this.#synced.set(facts.ino, facts.size);
  }

  #currentNames(): Map<string, number> {
    const files = readdirSync(this.#folder, { withFileTypes: true }).filter((entry) => entry.isFile());
    return new Map(files.map(({ name }) => [name, lstatSync(join(this.#folder, name)).ino]));
  }

  #contents(): Map<number, Uint8Array> {
    const names = [...this.#currentNames()];
    return new Map(names.map(([name, inode]) => [inode, readFileSync(join(this.#folder, name))]));
  }

  #powered<Result>(call: () => Result): Result {
    this.#made += 1;
    if (this.isCut) throw new PowerCut();
    return call();
  }
}

/** What is synced, and of the rest a random beginning, in which pages may have stayed NUL. */
function remembered(bytes: Uint8Array, synced: number, random: SeededRandom): Uint8Array {
  const kept = Uint8Array.from(bytes.subarray(0, synced + random.below(bytes.length - synced + 1)));
  for (let page = Math.floor(synced / PAGE); page * PAGE < kept.length; page += 1) {
    if (random.below(3) > 0) continue;
    kept.fill(0, Math.max(synced, page * PAGE), Math.min(kept.length, (page + 1) * PAGE));
  }
  return kept;
}

/** What unsynced lines may look like after a cut. */
const FROM_CUTS: ReadonlySet<string> = new Set([
  "corrupt",
  "torn-tail",
  "unterminated-tail",
  "orphan",
  "bad-reference",
]);

/**
 * What holds for every session after the power went: it opens, has no issue but those that a cut may leave, and its
 * next append is clean. `judge` says what else has to hold of it.
 */
export async function judgeAfterCut(
  findings: Findings,
  file: string,
  when: string,
  judge: (session: SessionTree) => void | Promise<void>,
): Promise<void> {
  const store = fileStore({ home: file });
  const session = await SessionTree.open(await store.open({ file }, "write")).catch((error: Error) => error);
  if (session instanceof Error) {
    findings.fault(`${when}: the session does not open: ${session.message}`);
    return;
  }
  await judge(session);
  for (const { kind } of (await diagnose(session.log)).issues) {
    if (FROM_CUTS.has(kind)) findings.count(kind);
    else findings.fault(`${when}: the session has the issue ${kind}.`);
  }
  const [appended] = await session.append(custom.of({ customType: "trial" }));
  const again = await SessionTree.open(await store.open({ file }, "read"));
  findings.expect(again.leafId === appended!.id, () => `${when}: the next append is not clean.`);
  await again.close();
  await session.close();
}
