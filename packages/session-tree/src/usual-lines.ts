import { type LineFinder, NewlineFinder } from "@espalier/jsonl-stream";
import { BEFORE_ID, BEFORE_PARENT, BEFORE_TYPE, type EntryScan } from "./entry-scan.ts";
import type { IdHashes } from "./id-hashes.ts";
import {
  MOST_LINES,
  returnUsualLinesMemory,
  takeUsualLinesMemory,
  type UsualLinesMemory,
} from "./usual-lines-memory.ts";

/**
 * Finds the lines of a log, and which of them are entries in the usual form: `type`, `id` and `parentId` first, as Pi and
 * we write them, and no mark of a second entry behind. Compiled code (usual-lines.wat) looks at a window at once, in
 * the memory that it was read into; whatever is not usual, or not in that memory, is for others to look at.
 */
export class UsualLines implements LineFinder {
  readonly #memory: UsualLinesMemory | undefined;
  readonly #seed: number;
  readonly #plain = new NewlineFinder();
  /** Where the window's block begins in the memory. */
  #base = 0;
  /** Where the window begins in the block. */
  #start = 0;
  /** Lines of the window that were found. */
  #count = 0;
  /** The line that was asked for last, by its number in the window. */
  #line = -1;
  /** Going backward: the line behind the one that is asked for next. */
  #following = 0;

  /** @param seed of the hashes */
  constructor(seed = 0) {
    this.#memory = takeUsualLinesMemory();
    this.#seed = seed;
  }

  /** Lets the next walk have the memory; to be called when the walk is through, however it ends. */
  release(): void {
    if (this.#memory) returnUsualLinesMemory();
  }

  get memory(): Uint8Array | undefined {
    return this.#memory?.block;
  }

  look(block: Uint8Array, start: number, end: number): void {
    this.#plain.look(block, start, end);
    this.#base = block.byteOffset;
    this.#start = start;
    this.#count = this.#find(block, start, end);
    this.#line = -1;
    this.#following = this.#count;
  }

  #find(block: Uint8Array, start: number, end: number): number {
    const memory = this.#memory;
    if (!memory || block.buffer !== memory.block.buffer) return 0;
    const found = memory.find(block.byteOffset + start, block.byteOffset + end, this.#seed);
    // Only a window of hardly anything but empty lines has more than there is room for.
    return found < MOST_LINES ? found : 0;
  }

  stopOf(start: number): number {
    const line = ++this.#line;
    return line < this.#count ? this.#memory!.stops[line]! - this.#base : this.#plain.stopOf(start);
  }

  startOf(stop: number): number {
    const line = this.#following - 1;
    if (line < 0 || this.#memory!.stops[line]! - this.#base !== stop) {
      this.#line = -1;
      return this.#plain.startOf(stop);
    }
    this.#line = this.#following = line;
    return line === 0 ? this.#start : this.#memory!.stops[line - 1]! - this.#base + 1;
  }

  /** Whether the line that was found last is an entry in the usual form. */
  get isUsual(): boolean {
    const line = this.#line;
    return line >= 0 && line < this.#count && this.#memory!.typeEnds[line] !== 0;
  }

  /** Tells where things stand in the line that was found last, which is a usual one and begins at `start`. */
  scanInto(found: EntryScan, start: number): void {
    const { typeEnds, idEnds, parentEnds } = this.#memory!;
    const line = this.#line;
    found.typeStart = start + BEFORE_TYPE.length;
    found.typeEnd = typeEnds[line]! - this.#base;
    found.idStart = found.typeEnd + BEFORE_ID.length;
    found.idEnd = idEnds[line]! - this.#base;
    found.parentStart = found.idEnd + BEFORE_PARENT.length;
    found.parentEnd = parentEnds[line]! - this.#base;
    found.stop = found.parentEnd + 1;
  }

  /** Takes over the hashes of its id and of its parent's. */
  hashesInto(ids: IdHashes, parents: IdHashes, at: number): void {
    const { ids: ofIds, parents: ofParents } = this.#memory!;
    const line = this.#line;
    ids.low[at] = ofIds.low[line]!;
    ids.high[at] = ofIds.high[line]!;
    parents.low[at] = ofParents.low[line]!;
    parents.high[at] = ofParents.high[line]!;
  }
}
