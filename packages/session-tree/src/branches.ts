import { isMessage } from "./entries/message.ts";
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
  return tipRows(tree).map((row) => ({
    leafId: tree.idAt(row),
    lastUserText: lastUserText(tree, row),
    timestamp: tree.entryAt(row).timestamp,
  }));
}

function lastUserText(tree: Tree, tip: number): string {
  for (let row = tip; row >= 0; row = tree.index.parent(row)) {
    const entry = tree.entryAt(row);
    if (isMessage(entry, "user")) return messageText(entry.message);
  }
  return "";
}
