import { isMessage, message } from "./entries/message.ts";
import { messageText } from "./message.ts";
import type { Tree } from "./tree.ts";

/** An end of the tree, and how a person would recognise it. */
export interface Branch {
  /** The last entry of the branch. */
  leafId: string;
  /** Text of the newest user message on the branch's path; empty when nobody said anything. */
  lastUserText: string;
  /** When its last entry was written, ISO 8601. */
  timestamp: string;
}

/** Rows that end a branch: entries that move the leaf and have nothing below them that does. In file order. */
export function tipRows(tree: Tree): number[] {
  const { index } = tree;
  const moving = new Uint8Array(index.length);
  const tips: number[] = [];
  for (let row = index.length - 1; row >= 0; row--) {
    const moves = tree.kindAt(row).movesLeaf;
    if (moves && moving[row] === 0) tips.push(row);
    const parent = index.parent(row);
    if (parent >= 0 && (moves || moving[row] === 1)) moving[parent] = 1;
  }
  return tips.reverse();
}

/** All branches, in the order in which their last entries were written. */
export function branches(tree: Tree): Branch[] {
  const askedAt = new AskedRows(tree);
  return tipRows(tree).map((row) => {
    const asked = askedAt.of(row);
    const entry = asked < 0 ? undefined : tree.entryAt(asked);
    return {
      leafId: tree.idAt(row),
      lastUserText: entry && isMessage(entry, "user") ? messageText(entry.message) : "",
      timestamp: tree.entryAt(row).timestamp,
    };
  });
}

const UNKNOWN = -2;

/** For rows, the newest user message on their path. Each row is looked at once, however many branches share it. */
class AskedRows {
  readonly #tree: Tree;
  readonly #asked: Int32Array;

  constructor(tree: Tree) {
    this.#tree = tree;
    this.#asked = new Int32Array(tree.length).fill(UNKNOWN);
  }

  /** The row of the message; -1 when nobody said anything. */
  of(row: number): number {
    const climbed: number[] = [];
    let at = row;
    while (at >= 0 && this.#asked[at] === UNKNOWN && !this.#isAsked(at)) {
      climbed.push(at);
      at = this.#tree.index.parent(at);
    }
    const asked = at < 0 ? -1 : this.#asked[at] === UNKNOWN ? at : this.#asked[at]!;
    for (const passed of climbed) this.#asked[passed] = asked;
    return asked;
  }

  #isAsked(row: number): boolean {
    const { type } = this.#tree.kindAt(row);
    return type === message.type && isMessage(this.#tree.entryAt(row), "user");
  }
}
