import { commonAncestorRow, contextOfPath, pathRows, pathWindowAt, type Tree } from "@espalier/session-tree";
import { usageOf } from "./entry-gist.ts";

/** One of two branches, from where they part. */
export interface BranchSide {
  /** Rows from the parting on, to the end; the common ancestor is not among them. */
  rows: number[];
  /** Messages of the context at its end, and their tokens. */
  messages: number;
  tokens: number;
  /** US dollars billed since the parting. */
  cost: number;
}

/** Two branches and where they part. */
export interface BranchComparison {
  /** -1 where they have nothing in common. */
  commonRow: number;
  a: BranchSide;
  b: BranchSide;
}

export function compareAt(tree: Tree, a: number, b: number): BranchComparison {
  const commonRow = commonAncestorRow(tree, a, b);
  return { commonRow, a: sideOf(tree, a, commonRow), b: sideOf(tree, b, commonRow) };
}

function sideOf(tree: Tree, row: number, commonRow: number): BranchSide {
  const window = pathWindowAt(tree, row);
  const { messages, tokens } = contextOfPath(window.entries, window.before);
  const rows = pathRows(tree, row).filter((at) => at > commonRow && tree.kindAt(at).movesLeaf);
  const cost = rows.reduce((sum, at) => sum + (usageOf(tree.entryAt(at))?.cost?.total ?? 0), 0);
  return { rows, messages: messages.length, tokens, cost };
}
