import { type LineFinder, NewlineFinder } from "@espalier/jsonl-stream";
import type { EntryScan } from "../entry/line.ts";
import type { IdHashes } from "./columns.ts";

/**
 * Finds the lines of a log, and which of them are entries in the usual form: `type`, `id` and `parentId` first, as Pi and
 * we write them, and no mark of a second entry behind. Compiled code (compiled-scan.wat) looks at a window at once, in
 * the memory that it was read into; whatever is not usual, or not in that memory, is for others to look at.
 */
export class FastLineScanner implements LineFinder {
  readonly #memory: ScannerMemory | undefined;
  readonly #seed: number;
  readonly #plain = new NewlineFinder();
  /** Offset of the window's block in the memory. */
  #base = 0;
  /** Offset of the window in the block. */
  #start = 0;
  /** Lines of the window that were found. */
  #count = 0;
  /** The line that was asked for last, by its number in the window. */
  #line = -1;
  /** Going backward: the line behind the one that is asked for next. */
  #following = 0;

  /** @param seed of the hashes */
  constructor(seed = 0) {
    this.#memory = acquireMemory();
    this.#seed = seed;
  }

  /** Releases the memory for the next walk; call it when the walk is over, however it ends. */
  release(): void {
    if (this.#memory) releaseMemory();
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

  /** True when the line found last is an entry in the usual form. */
  get isUsual(): boolean {
    const line = this.#line;
    return line >= 0 && line < this.#count && this.#memory!.typeEnds[line] !== 0;
  }

  /** Fills in the positions of the line found last, which has the common shape and begins at `start`. */
  scanInto(found: EntryScan, start: number): void {
    const { typeEnds, idEnds, parentEnds } = this.#memory!;
    const line = this.#line;
    found.typeStart = start + BEFORE_TYPE;
    found.typeEnd = typeEnds[line]! - this.#base;
    found.idStart = found.typeEnd + BEFORE_ID;
    found.idEnd = idEnds[line]! - this.#base;
    found.parentStart = found.idEnd + BEFORE_PARENT;
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

/** Bytes before the three values of a usual line. */
const BEFORE_TYPE = '{"type":"'.length;
const BEFORE_ID = '","id":"'.length;
const BEFORE_PARENT = '","parentId":"'.length;

/** Lines that the columns have room for. Usual lines are longer than 64 bytes: a block has no more of them. */
const MOST_LINES = 16_384;
const BLOCK_AT = 64;
const BLOCK_BYTES = 1 << 20;
const COLUMNS_AT = BLOCK_AT + BLOCK_BYTES + 64;

/** The memory that compiled-scan.wat works in, and what it found there last. Positions count from the memory's beginning. */
interface ScannerMemory {
  /** Memory that blocks are read into. */
  block: Uint8Array;
  /** Finds lines in `[from, to)`; returns how many. */
  find(from: number, to: number, seed: number): number;
  /** By line: where it stops. */
  stops: Int32Array;
  /** By line: where the value of `type` ends; 0 when the line is not a usual one. */
  typeEnds: Int32Array;
  idEnds: Int32Array;
  parentEnds: Int32Array;
  /** By line: the hash of its id, with the seed of `find`, and that of its parent's. */
  ids: { low: Int32Array; high: Int32Array };
  parents: { low: Int32Array; high: Int32Array };
}

/** One for all walks, since most follow each other; undefined before the first, null where there can be none. */
let memory: ScannerMemory | null | undefined;
let isTaken = false;

/** The memory, for one walk at a time; undefined while another has it, and where there can be none. */
function acquireMemory(): ScannerMemory | undefined {
  if (memory === undefined) memory = instantiate();
  if (isTaken || memory === null) return undefined;
  isTaken = true;
  return memory;
}

/** Releases the memory; call it once for each {@link acquireMemory}. */
function releaseMemory(): void {
  isTaken = false;
}

/** The part that is used here: its types come with those of a browser, which the core does without. */
declare const WebAssembly: {
  CompileError: new () => Error;
  Module: new (code: Uint8Array) => object;
  Instance: new (module: object) => { exports: object };
};

/**
 * Null in a browser, whose page need not allow code that is compiled on the way; where a program runs without WebAssembly,
 * or on a processor or under a policy for which such code is not compiled; and where its address space is limited to less
 * than the runtime sets aside for such a memory, 10 GB. The same lines are read without it, so there is no message.
 */
function instantiate(): ScannerMemory | null {
  if (globalThis.Buffer === undefined) return null;
  const code = Uint8Array.from(atob(COMPILED_SCAN_CODE), (character) => character.charCodeAt(0));
  try {
    return memoryOf(new WebAssembly.Instance(new WebAssembly.Module(code)).exports);
  } catch (problem) {
    if (isOfTheMachine(problem)) return null;
    throw problem;
  }
}

/** No WebAssembly at all, no room for its memory, or (that the code is sound is tested) no instructions to compile it to. */
function isOfTheMachine(problem: unknown): boolean {
  if (problem instanceof ReferenceError || problem instanceof RangeError) return true;
  return problem instanceof WebAssembly.CompileError;
}

function memoryOf(exports: object): ScannerMemory {
  const { memory, find } = exports as { memory: { buffer: ArrayBuffer }; find: ScannerMemory["find"] };
  const column = (at: number) => new Int32Array(memory.buffer, COLUMNS_AT + at * MOST_LINES * 4, MOST_LINES);
  return {
    block: new Uint8Array(memory.buffer, BLOCK_AT, BLOCK_BYTES),
    find,
    stops: column(0),
    typeEnds: column(1),
    idEnds: column(2),
    parentEnds: column(3),
    ids: { low: column(4), high: column(5) },
    parents: { low: column(6), high: column(7) },
  };
}

/** compiled-scan.wat as base64: written by `node scripts/compile-scan.mjs`; a test compares the two. */
const COMPILED_SCAN_CODE = [
  "AGFzbQEAAAABHQVgA39/fwF/YAN/f38AYAF/AX9gAX8AYAJ/fwF/AwcGAAECAwQBBQMBABkGFQR/AUEAC38BQQALfwFBAAt/AUEACwcRAgZtZW",
  "1vcnkCAARmaW5kAAAKjQcGpAICAX8HeyAAJABBACQBQYCBwAAkAiACJANBCv0PIQRB9JIB/RAhBUHJyAH9ECEGIABBQHEhAwJAA0AgAyABTw0B",
  "IAP9AAQAIQcgA/0ABBAhCCAD/QAEICEJIAP9AAQwIQogByAE/SMgByAF/S0gByAG/S39UP1QIQcgCCAE/SMgCCAF/S0gCCAG/S39UP1QIQggCS",
  "AE/SMgCSAF/S0gCSAG/S39UP1QIQkgCiAE/SMgCiAF/S0gCiAG/S39UP1QIQogByAI/VAgCSAK/VD9UP1TBEAgAyAH/WQgARABIANBEGogCP1k",
  "IAEQASADQSBqIAn9ZCABEAEgA0EwaiAK/WQgARABCyADQcAAaiEDIwJBgIHEAEkNAAsLIwJBgIHAAGtBAnYLbwECfwJAA0AgAUUNASAAIAFoai",
  "EDIAEgAUEBa3EhASADLQAAIQQgBEHJAEYEQCADEAIEQCADJAELCyAEQQpHDQAgAyMASQ0AIAMgAk8NASMCQYCBxABPDQEgAxADIANBAWokACMC",
  "QQRqJAIMAAsLCyUAIABBBGspAwBC8sq5o5eJmZE6USAAQQdrKAIAQaLghZMHRnELgAIBBX8jACEBIwIhAiACIAA2AgAgAkEANgKAgAQgASkDAE",
  "L7xNDLh66ZkTpSDQAgAS0ACEEiRw0AIABBAWstAABB/QBHDQAgAUEJaiAAEAQhAyADKQMAQqLYiMnGzIidIlINACADQQhqIAAQBCEEIAQgA0EI",
  "akYNACAEKQMAQqLYiIGXzNyy7gBSDQAgBCkDBkLl3NHLxMyInSJSDQAgBEEOaiAAEAQhBSAFQQFqIABPDQAgBS8BAEGi2ABHDQAjASAFSw0AIA",
  "IgAzYCgIAEIAIgBDYCgIAIIAIgBTYCgIAMIANBCGogBCACQYCAEGoQBSAEQQ5qIAUgAkGAgBhqEAULPQEBfwJAA0AgACABTw0BIAAtAAAhAiAC",
  "QSBrQd4ASw0BIAJBIkYNASACQdwARg0BIABBAWohAAwACwsgAAuOAQEDfyMDIAEgAGtzIQMgA0F/cyEEAkADQCAAIAFPDQEgAEEBaiABSQR/IA",
  "AvAQAFIAAtAAALIQUgAyAFc0GTg4AIbCEDIAQgBXMgBEEPdmpB65Svr3hsIQQgAEECaiEADAALCyACIAMgA0EPdnNB7fjs4AJsNgIAIAIgBCAE",
  "QQ12c0G13MqVfGw2AoCABAs=",
].join("");
