import { USUAL_LINES_CODE } from "./usual-lines-code.ts";

/** How many lines have room in the columns. Usual lines are longer than 64 bytes: a block has no more of them. */
export const MOST_LINES = 16_384;

const BLOCK_AT = 64;
const BLOCK_BYTES = 1 << 20;
const COLUMNS_AT = BLOCK_AT + BLOCK_BYTES + 64;

/** The memory that usual-lines.wat works in, and what it found there last. Positions count from the memory's beginning. */
export interface UsualLinesMemory {
  /** What blocks are read into. */
  block: Uint8Array;
  /** Finds lines in `[from, to)`; returns how many. */
  find(from: number, to: number, seed: number): number;
  /** By line: where it stops. */
  stops: Int32Array;
  /** By line: where the value of `type` ends; 0 when the line is not a usual one. */
  typeEnds: Int32Array;
  idEnds: Int32Array;
  parentEnds: Int32Array;
  /** By line: the hash of its id, seeded as `find` was told, and that of its parent's. */
  ids: { low: Int32Array; high: Int32Array };
  parents: { low: Int32Array; high: Int32Array };
}

/** One for all walks, as most of them follow each other; undefined while nobody asked, null where there can be none. */
let memory: UsualLinesMemory | null | undefined;
let isTaken = false;

/** The memory, for one walk at a time; undefined while another has it, and where there can be none. */
export function takeUsualLinesMemory(): UsualLinesMemory | undefined {
  if (memory === undefined) memory = instantiate();
  if (isTaken || memory === null) return undefined;
  isTaken = true;
  return memory;
}

/** Gives the memory back; to be called once by whoever took it. */
export function returnUsualLinesMemory(): void {
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
 * than the runtime sets aside for such a memory, 10 GB. The same lines are read without it, so nobody has to be told.
 */
function instantiate(): UsualLinesMemory | null {
  if (globalThis.Buffer === undefined) return null;
  const code = Uint8Array.from(atob(USUAL_LINES_CODE), (character) => character.charCodeAt(0));
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

function memoryOf(exports: object): UsualLinesMemory {
  const { memory, find } = exports as { memory: { buffer: ArrayBuffer }; find: UsualLinesMemory["find"] };
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
