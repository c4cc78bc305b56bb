import { fstatSync, lstatSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type FileCalls, nodeFileCalls } from "@espalier/jsonl-stream/node";
import type { SeededRandom } from "./seeded-random.ts";

/** Bytes that reach a disk together. */
const PAGE = 4_096;

/** What every call throws once the power is gone. */
export class PowerCut extends Error {
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
export class ForgetfulDisk {
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
