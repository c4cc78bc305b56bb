import type { DraftOptions } from "../import-draft.ts";
import { LineKind } from "./line-kind.ts";
import type { LineTable } from "./line-table.ts";

/** How far up a line of the same answer is looked for: results and attachments can stand between two. */
const REACH = 64;

type Known = NonNullable<DraftOptions["known"]>;

/**
 * Which lines are parts of one answer. An answer is written one line for each block of its content, and read as one
 * message. Lines belong together when they name the same answer and one stands above the other.
 */
export class AnswerParts {
  readonly #table: LineTable;
  readonly #head: Int32Array;
  readonly #parts = new Map<number, number[]>();
  readonly #split = new Set<number>();

  /** @param known lines that were written after an earlier import are an answer of their own */
  constructor(table: LineTable, idOf: (row: number) => string, known?: Known) {
    this.#table = table;
    this.#head = new Int32Array(table.length).fill(-1);
    for (let row = 0; row < table.length; row++) if (table.message(row) >= 0) this.#place(row);
    for (const [head, parts] of this.#parts) {
      parts.sort((a, b) => a - b);
      if (known) this.#separate(head, parts, idOf, known);
    }
  }

  /** The row that stands for the whole answer; the row itself for everything else. */
  headOf(row: number): number {
    const head = this.#head[row]!;
    return head < 0 ? row : head;
  }

  /** All rows of an answer, in file order. */
  partsOf(head: number): readonly number[] {
    return this.#parts.get(head) ?? [head];
  }

  /** True for an answer whose later lines are an entry of their own. */
  isSplit(head: number): boolean {
    return this.#split.has(head);
  }

  #place(row: number): void {
    const head = this.#topOf(row);
    this.#head[row] = head;
    if (head === row) return;
    this.#head[head] = head;
    const parts = this.#parts.get(head) ?? [head];
    parts.push(row);
    this.#parts.set(head, parts);
  }

  /** The topmost line of the same answer. What was placed before is not walked again. */
  #topOf(row: number): number {
    const table = this.#table;
    const message = table.message(row);
    let top = row;
    let at = table.parent(row);
    for (let step = 0; step < REACH && at >= 0 && at !== row; step++) {
      if (table.message(at) === message) {
        if (this.#head[at]! >= 0) return this.#head[at]!;
        top = at;
      } else if (table.kind(at) === LineKind.assistant) break;
      at = table.parent(at);
    }
    return top;
  }

  #separate(head: number, parts: number[], idOf: (row: number) => string, known: Known): void {
    let first = head;
    let rest = parts;
    for (;;) {
      const taken = known(idOf(first))?.lines;
      if (taken === undefined || taken < 1 || taken >= rest.length) return;
      const later = rest.slice(taken);
      this.#split.add(first);
      this.#parts.set(first, rest.slice(0, taken));
      first = later[0]!;
      rest = later;
      this.#parts.set(first, rest);
      for (const row of rest) this.#head[row] = first;
    }
  }
}
