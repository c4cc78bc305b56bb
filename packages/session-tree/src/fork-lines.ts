import { encodeLines, formatLine } from "@espalier/jsonl-stream";
import type { ForkPlan } from "./fork.ts";
import type { Tree } from "./tree.ts";

/** Bytes copied at once, lines beyond it aside. */
const PIECE = 1 << 20;

const LINE_FEED = 10;

/**
 * The lines of a fork, one at a time: the path's own bytes, then the additions. A store that keeps the session they
 * come from (the header's `parentSession`) may follow the plan instead, and copy them where they are.
 */
export class ForkLines implements Iterable<string | Uint8Array> {
  /** The plan that the lines follow. */
  readonly plan: ForkPlan;
  readonly #tree: Tree;

  constructor(tree: Tree, plan: ForkPlan) {
    this.#tree = tree;
    this.plan = plan;
  }

  /** Each line without its end: those of the path as bytes, the additions as JSON text. */
  *[Symbol.iterator](): Generator<string | Uint8Array> {
    for (const row of this.plan.rows) yield this.#tree.bytesAt(row);
    for (const entry of this.plan.additions) yield formatLine(entry);
  }

  /**
   * The same as bytes, a newline behind each line, in pieces as large as the path stands together in the log: for who
   * writes bytes, a piece for each line costs more than copying it. Each is good until the next is asked for.
   */
  *pieces(): Generator<Uint8Array> {
    const { index, view } = this.#tree;
    const { rows, additions } = this.plan;
    const buffer = new Uint8Array(PIECE);
    for (let at = 0; at < rows.length; ) {
      const start = index.offset(rows[at]!);
      let end = start + index.lineLength(rows[at]!);
      const ends = [end];
      for (at++; at < rows.length && index.offset(rows[at]!) === end + 1; at++) {
        const next = end + 1 + index.lineLength(rows[at]!);
        if (next - start >= PIECE) break;
        end = next;
        ends.push(end);
      }
      const length = end - start;
      // A line that is longer than the buffer is a piece of its own.
      const piece = length < PIECE ? buffer.subarray(0, length + 1) : new Uint8Array(length + 1);
      view.readInto(start, piece.subarray(0, length));
      // Whatever ended the lines, or stood between two that a torn write put on one.
      for (const lineEnd of ends) piece[lineEnd - start] = LINE_FEED;
      yield piece;
    }
    yield encodeLines(additions.map((entry) => formatLine(entry)));
  }
}

/** The lines of a fork. */
export function forkLines(tree: Tree, plan: ForkPlan): ForkLines {
  return new ForkLines(tree, plan);
}
