import type { DraftOptions } from "../import/draft.ts";
import type { ScratchArea, ScratchColumn } from "../scratch/space.ts";
import { LineKind } from "./line-facts.ts";
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
  /** For each part the row that stands for the whole; -1 for what is not divided. */
  readonly #head: ScratchColumn<Int32Array>;
  /** From a head to its last part, from that to the one before; -1 behind the first. */
  readonly #before: ScratchColumn<Int32Array>;
  readonly #split = new Set<number>();

  /** @param known lines that were written after an earlier import are an answer of their own */
  constructor(table: LineTable, area: ScratchArea, idOf: (row: number) => string, known?: Known) {
    this.#table = table;
    this.#head = area.integers(-1);
    this.#before = area.integers(-1);
    for (let row = 0; row < table.length; row++) if (table.message(row) >= 0) this.#place(row);
    if (!known) return;
    for (let row = 0; row < table.length; row++)
      if (this.#before.get(row) >= 0 && this.headOf(row) === row) this.#separate(row, idOf, known);
  }

  /** The row that stands for the whole answer; the row itself for everything else. */
  headOf(row: number): number {
    const head = this.#head.get(row);
    return head < 0 ? row : head;
  }

  /** All rows of an answer, in file order. */
  partsOf(head: number): number[] {
    const parts = [head];
    for (let part = this.#before.get(head); part >= 0; part = this.#before.get(part)) parts.push(part);
    return parts.length === 1 ? parts : parts.sort((a, b) => a - b);
  }

  /** True for an answer whose later lines are an entry of their own. */
  isSplit(head: number): boolean {
    return this.#split.has(head);
  }

  #place(row: number): void {
    const head = this.#topOf(row);
    this.#head.set(row, head);
    if (head === row) return;
    this.#head.set(head, head);
    this.#join(row, head);
  }

  #join(row: number, head: number): void {
    this.#before.set(row, this.#before.get(head));
    this.#before.set(head, row);
  }

  /** The topmost line of the same answer. What was placed before is not walked again. */
  #topOf(row: number): number {
    const table = this.#table;
    const message = table.message(row);
    let top = row;
    let at = table.parent(row);
    for (let step = 0; step < REACH && at >= 0 && at !== row; step++) {
      if (table.message(at) === message) {
        const head = this.#head.get(at);
        if (head >= 0) return head;
        top = at;
      } else if (table.kind(at) === LineKind.assistant) break;
      at = table.parent(at);
    }
    return top;
  }

  /** Lines that an earlier import did not see are answers of their own. */
  #separate(head: number, idOf: (row: number) => string, known: Known): void {
    let first = head;
    let rest = this.partsOf(head);
    for (;;) {
      const taken = known(idOf(first))?.lines;
      if (taken === undefined || taken < 1 || taken >= rest.length) return;
      this.#split.add(first);
      this.#gather(first, rest.slice(0, taken));
      rest = rest.slice(taken);
      first = rest[0]!;
      this.#gather(first, rest);
    }
  }

  /** Makes an answer of these rows. */
  #gather(head: number, rows: readonly number[]): void {
    this.#before.set(head, -1);
    for (const row of rows) {
      this.#head.set(row, head);
      if (row !== head) this.#join(row, head);
    }
  }
}
