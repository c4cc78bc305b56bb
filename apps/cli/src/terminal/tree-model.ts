import { type ArchivedRows, archivedRows, rowsHidden } from "@espalier/engine";
import {
  compaction,
  type LabelInForce,
  labelsInForce,
  leafOf,
  leafRowAt,
  movingRow,
  rowsOf,
  sessionName,
  type Tree,
} from "@espalier/session-tree";
import { RowGists } from "./row-gists.ts";
import { RowKinds } from "./row-kinds.ts";
import { TreeOrder } from "./tree-order.ts";

/**
 * A session as the screen shows it: everything that is derived from the index of its tree, at one length of its log.
 * It never changes; when the log grows, another one is made.
 */
export interface TreeModel {
  readonly tree: Tree;
  /** Entries when this was made; the tree may have grown since. */
  readonly length: number;
  readonly kinds: RowKinds;
  readonly gists: RowGists;
  readonly order: TreeOrder;
  readonly leafId: string | null;
  /** -1 before the first entry. */
  readonly leafRow: number;
  readonly name: string | undefined;
  /** Labels in force, by the row they are for. */
  readonly labels: ReadonlyMap<number, string>;
  /** Rows of the leaf's path that the model no longer reads: a compaction stands for them. */
  readonly archived: ArchivedRows;
  /** Rows of the leaf's path that an edit keeps from the model. */
  readonly hiddenRows: ReadonlySet<number>;
  /** Positions of compactions and labels, ascending: what a map of the whole shows. */
  readonly compactionPositions: readonly number[];
  readonly labelPositions: readonly number[];
  /** True while only the end of the log was read. */
  readonly isPartial: boolean;
}

/** @param known what is known already of the rows of the same tree; isPartial: by default false */
export function treeModel(
  tree: Tree,
  {
    kinds = new RowKinds(tree),
    gists = new RowGists(tree),
    isPartial = false,
  }: Partial<Pick<TreeModel, "kinds" | "gists" | "isPartial">> = {},
): TreeModel {
  const leafId = leafOf(tree);
  const leafRow = movingRow(tree, leafRowAt(tree, tree.lastRow));
  const order = new TreeOrder(tree, leafRow);
  const labels = labelsByRow(tree, labelsInForce(tree));
  const positionsOf = (rows: Iterable<number>): number[] =>
    [...rows].flatMap((row) => order.positions[row] ?? []).sort((a, b) => a - b);
  const compactions = [...rowsOf(tree, compaction.type)].map(([row]) => row);
  return {
    tree,
    length: tree.length,
    kinds,
    gists,
    order,
    leafId,
    leafRow,
    name: sessionName(tree),
    labels,
    archived: archivedRows({ tree, leafId }),
    hiddenRows: rowsHidden({ tree, leafId }),
    compactionPositions: positionsOf(compactions),
    labelPositions: positionsOf(labels.keys()),
    isPartial,
  };
}

function labelsByRow(tree: Tree, labels: ReadonlyMap<string, LabelInForce>): Map<number, string> {
  const byRow = new Map<number, string>();
  for (const [id, { label }] of labels) if (tree.has(id)) byRow.set(tree.row(id), label);
  return byRow;
}
