import {
  commonAncestorRow,
  estimateTotal,
  messagesOf,
  movingRow,
  pathRows,
  type Tree,
} from "@espalier/session-tree";
import { collectFileOps, type FileTool } from "@espalier/summarizer";
import { billOfRows, type OwnPrices } from "./bills.ts";

/** The part of a branch below its deepest common entry with another one. */
export interface BranchSide {
  /** Last entry; null is the position before the first entry. */
  leafId: string | null;
  /** Entries of this branch alone, oldest first. */
  entryIds: string[];
  /** Number of messages of these entries, before edits. */
  messages: number;
  /** Size of these messages by the rough estimate: characters / 4. */
  tokens: number;
  /** US dollars for its answers and summaries, including estimates; null when no call has a known price. */
  cost: number | null;
  /** Part of `cost` that no bill records, in US dollars: tokens at known prices. */
  estimated: number;
  /** Files that its calls read or changed, according to the tools' declarations; sorted. */
  files: string[];
}

/** Comparison of two branches. */
export interface BranchComparison {
  /** Deepest entry that is on both paths; null when they have no common entry. */
  commonAncestorId: string | null;
  a: BranchSide;
  b: BranchSide;
}

/**
 * Compares two branches, named by entries on them. null is before the first entry; an entry outside the conversation
 * represents the entry to which it is attached. Pure.
 *
 * @param options.tools file declarations of tools; default: the common ones
 * @param options.prices prices of calls whose bill records none; they override those of the catalogue
 * @throws EspalierError `unknown-entry`
 */
export function compareBranches(
  tree: Tree,
  a: string | null,
  b: string | null,
  options: { tools?: readonly FileTool[]; prices?: OwnPrices } = {},
): BranchComparison {
  const rowOf = (id: string | null) => (id === null ? -1 : movingRow(tree, tree.row(id)));
  const [rowA, rowB] = [rowOf(a), rowOf(b)];
  const ancestor = commonAncestorRow(tree, rowA, rowB);
  const sideTo = (leafRow: number): BranchSide => {
    const rows = pathRows(tree, leafRow, ancestor);
    const messages = rows.flatMap((row) => messagesOf(tree.entryAt(row)));
    const bill = billOfRows(tree, rows, options.prices);
    const { read, written, edited } = collectFileOps(messages, options.tools);
    return {
      leafId: leafRow < 0 ? null : tree.idAt(leafRow),
      entryIds: rows.map((row) => tree.idAt(row)),
      messages: messages.length,
      tokens: estimateTotal(messages),
      cost: bill.calls > 0 && bill.unpriced === bill.calls ? null : bill.cost,
      estimated: bill.estimated,
      files: [...new Set([...read, ...written, ...edited])].sort(),
    };
  };
  const commonAncestorId = ancestor < 0 ? null : tree.idAt(ancestor);
  return { commonAncestorId, a: sideTo(rowA), b: sideTo(rowB) };
}
