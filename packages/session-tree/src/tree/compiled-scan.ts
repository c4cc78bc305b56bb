import { type LineFinder, NewlineFinder } from "@espalier/jsonl-stream";
import { EntryScan, JoinedEntryFinder, scanEntry } from "../entry/line.ts";
import type { IdHashes } from "./entry-index.ts";

/**
 * Finds the lines of a log, and the lines that are entries in the usual form: they begin with `type`, `id` and
 * `parentId`, as in files of Pi and Espalier, and have no sign of a second entry. Compiled code (compiled-scan.wat)
 * scans a whole window at once, in the memory into which it was read. All other lines and windows get a slower scan.
 */
export class FastLineScanner implements LineFinder {
  /** Positions in the line that the last {@link scan} read. */
  readonly entry = new EntryScan();
  /** True when the last {@link scan} found `type`, `id` and `parentId` in the line. */
  isLegible = false;
  readonly #marks = new JoinedEntryFinder();
  #memory: ScannerMemory | undefined;
  readonly #seed: number;
  readonly #plain = new NewlineFinder();
  /** Offset of the window's block in the memory. */
  #base = 0;
  /** Offset of the window in the block. */
  #start = 0;
  /** Number of lines found in the window. */
  #count = 0;
  /** Number of the last returned line in the window. */
  #line = -1;
  /** Number of the line after the next one, when walking backwards. */
  #following = 0;

  /** @param seed initial value of the hashes of ids */
  constructor(seed = 0) {
    this.#seed = seed;
  }

  /**
   * Returns the memory that all walks share. Undefined while another walk uses it, and when it cannot be created: the
   * slower scan is used then.
   */
  acquire(): Uint8Array | undefined {
    if (memory === undefined) memory = instantiate();
    if (isTaken || memory === null) return undefined;
    isTaken = true;
    this.#memory = memory;
    return memory.block;
  }

  release(): void {
    if (this.#memory) isTaken = false;
    this.#memory = undefined;
    this.#count = 0;
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
    // Only a window that consists almost entirely of empty lines has more lines than there is room for.
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

  /** Returns whether the last found line is an entry in the usual form. */
  get isUsual(): boolean {
    const line = this.#line;
    return line >= 0 && line < this.#count && this.#memory!.typeEnds[line] !== 0;
  }

  /**
   * Scans the last found line, `block[start, end)` at `offset` in the log. Fills in {@link entry} and
   * {@link isLegible}. Returns true when the line is certainly one entry; any other line has to be parsed.
   */
  scan(block: Uint8Array, start: number, end: number, offset: number): boolean {
    const { entry } = this;
    if (!this.isUsual) {
      this.isLegible = scanEntry(block, start, end, entry);
      return this.isLegible && !this.#marks.between(block, offset - start, entry.stop, end);
    }
    const { typeEnds, idEnds, parentEnds } = this.#memory!;
    const line = this.#line;
    entry.typeStart = start + BEFORE_TYPE;
    entry.typeEnd = typeEnds[line]! - this.#base;
    entry.idStart = entry.typeEnd + BEFORE_ID;
    entry.idEnd = idEnds[line]! - this.#base;
    entry.parentStart = entry.idEnd + BEFORE_PARENT;
    entry.parentEnd = parentEnds[line]! - this.#base;
    entry.stop = entry.parentEnd + 1;
    this.isLegible = true;
    return true;
  }

  /**
   * Copies the hashes of the last found line's id and of its parent's id to index `at`. Only for a line that
   * {@link isUsual}.
   */
  hashesInto(ids: IdHashes, parents: IdHashes, at: number): void {
    const { ids: ofIds, parents: ofParents } = this.#memory!;
    const line = this.#line;
    ids.low[at] = ofIds.low[line]!;
    ids.high[at] = ofIds.high[line]!;
    parents.low[at] = ofParents.low[line]!;
    parents.high[at] = ofParents.high[line]!;
  }
}

/** Bytes before the three values of a line in the usual form. */
const BEFORE_TYPE = '{"type":"'.length;
const BEFORE_ID = '","id":"'.length;
const BEFORE_PARENT = '","parentId":"'.length;

/** Lines that the columns have room for. Lines in the usual form have more than 64 bytes, so a block has no more of them. */
const MOST_LINES = 16_384;
const BLOCK_AT = 64;
const BLOCK_BYTES = 1 << 20;
const COLUMNS_AT = BLOCK_AT + BLOCK_BYTES + 64;

/** Memory of compiled-scan.wat, with the results of its last scan. Positions count from the beginning of the memory. */
interface ScannerMemory {
  /** Part of the memory into which blocks are read. */
  block: Uint8Array;
  /** Finds the lines in `[from, to)`; returns their number. */
  find(from: number, to: number, seed: number): number;
  /** Position of each line's newline. */
  stops: Int32Array;
  /** End of each line's `type` value; 0 for a line that is not in the usual form. */
  typeEnds: Int32Array;
  idEnds: Int32Array;
  parentEnds: Int32Array;
  /** Hash of each line's id, with the seed of `find`. `parents` has the hash of the parent's id. */
  ids: { low: Int32Array; high: Int32Array };
  parents: { low: Int32Array; high: Int32Array };
}

/**
 * One memory for all walks, because most walks do not overlap. Undefined before the first walk, null when it cannot be
 * created.
 */
let memory: ScannerMemory | null | undefined;
let isTaken = false;

/** The used part of WebAssembly. Its types come with those of a browser, which the core does not use. */
declare const WebAssembly: {
  CompileError: new () => Error;
  Module: new (code: Uint8Array) => object;
  Instance: new (module: object) => { exports: object };
};

/**
 * Creates the memory; null when that is not possible. The slower scan reads the same lines, so this is not reported.
 * Reasons:
 *
 * - a browser, whose page may not allow compiled code
 * - no WebAssembly, or a processor or a policy that prevents compiling
 * - an address space limited to less than 10 GB, which the runtime reserves for such a memory
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

/**
 * Returns whether an error comes from the machine: no WebAssembly, no room for its memory, or no instructions to
 * compile it to. The code itself is valid, which a test checks.
 */
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

/** compiled-scan.wat as base64, written by `node scripts/compile-scan.mjs`. A test compares the two. */
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
