import { ChildIndex, type Tree } from "@espalier/session-tree";

/** A run of entries without a fork in it that is shown, and where it leaves what was shown before. */
export interface BranchSection {
  rows: number[];
  /** The row it follows; -1 for one that begins the session. */
  after: number;
}

/**
 * All branches of a tree as sections, each entry in one of them. From each fork the branch towards `endRow` goes straight
 * on, else the first; the others are sections of their own, in the order in which their forks are met. Entries beside
 * the conversation are no branches.
 */
export function* branchSections(tree: Tree, endRow: number): Generator<BranchSection> {
  const { index } = tree;
  const children = new ChildIndex(tree);
  const isOnPath = new Uint8Array(tree.length);
  for (let row = endRow; row >= 0; row = index.parent(row)) isOnPath[row] = 1;
  const leads = leadsToEntries(tree);
  const straightOn = (rows: number[]): number | undefined =>
    rows.find((row) => isOnPath[row] === 1) ?? rows[0];

  const roots = children.roots.filter((row) => leads[row] === 1);
  const first = straightOn(roots);
  const starts = first === undefined ? [] : [first, ...roots.filter((row) => row !== first)];
  // A list that is read while it grows: sections found on the way wait at its end.
  for (const start of starts) {
    const rows: number[] = [];
    let row: number | undefined = start;
    while (row !== undefined) {
      if (tree.kindAt(row).movesLeaf) rows.push(row);
      const following: number[] = [...children.of(row)].filter((child) => leads[child] === 1);
      row = straightOn(following);
      for (const child of following) if (child !== row) starts.push(child);
    }
    yield { rows, after: shownAbove(tree, start) };
  }
}

/** For each row 1 when it, or something below it, is part of the conversation. */
function leadsToEntries(tree: Tree): Uint8Array {
  const leads = new Uint8Array(tree.length);
  for (let row = tree.length - 1; row >= 0; row--) {
    if (tree.kindAt(row).movesLeaf) leads[row] = 1;
    const parent = tree.index.parent(row);
    if (leads[row] === 1 && parent >= 0) leads[parent] = 1;
  }
  return leads;
}

function shownAbove(tree: Tree, row: number): number {
  let above = tree.index.parent(row);
  while (above >= 0 && !tree.kindAt(above).movesLeaf) above = tree.index.parent(above);
  return Math.max(above, -1);
}
