import {
  createId,
  custom,
  DAMAGED,
  type Entry,
  leafRowAt,
  ORPHAN,
  ROOT,
  referenceIssues,
  type SessionIssue,
  type Tree,
} from "@espalier/session-tree";

/** What a healed copy does to a row of the damaged log. */
export type RepairAction =
  /** Its bytes are copied. */
  | "copied"
  /** Its id, its parent or what it refers to is another one in the copy. */
  | "rewritten"
  /** A `custom` entry that says nothing holds its place, so that what follows it stays where it was. */
  | "replaced"
  /** It stood beside the conversation, said nothing that can be followed, and nothing follows it. */
  | "left-out";

/** What a healed copy will be made of. */
export interface RepairPlan {
  tree: Tree;
  actions: RepairAction[];
  /** Fresh ids, for rows whose id belongs to another row above. */
  freshIds: ReadonlyMap<number, string>;
  /** What is wrong with what rows say, by row. */
  problems: ReadonlyMap<number, SessionIssue>;
  /** The leaf that opening the log gives, when the copy has to be told; undefined when it gives the same by itself. */
  leafRow: number | undefined;
}

/** The fields by which entries refer to others above them. */
export const REFERENCES = ["firstKeptEntryId", "targetId", "fromId"] as const;

/** Decides about every row of a damaged log. Changes nothing; linear in the size of the log. */
export function planRepair(tree: Tree): RepairPlan {
  const rowsAt = new Map<number, number>();
  for (let row = 0; row < tree.length; row++) rowsAt.set(tree.index.offset(row), row);
  const problems = new Map<number, SessionIssue>();
  for (const issue of referenceIssues(tree)) problems.set(rowsAt.get(issue.offset)!, issue);
  const freshIds = freshIdsOf(tree);
  const needed = neededRows(tree);
  const actions: RepairAction[] = [];
  for (let row = 0; row < tree.length; row++) {
    const isUsable = !problems.has(row) && tree.entryAt(row).type !== DAMAGED;
    if (isUsable) actions.push(keepsItsLine(tree, row, freshIds) ? "copied" : "rewritten");
    else actions.push(tree.kindAt(row).movesLeaf || needed.has(row) ? "replaced" : "left-out");
  }
  const plan: RepairPlan = { tree, actions, freshIds, problems, leafRow: undefined };
  const wanted = leafRowAt(tree, tree.lastRow);
  return { ...plan, leafRow: leafOfCopy(plan) === wanted ? undefined : wanted };
}

/** The row that a reference of `row` means; -1 for none. Only a compaction may mean itself: it then keeps nothing. */
export function referredRow({ index }: Tree, row: number, id: string, field?: string): number {
  return field === "firstKeptEntryId" && index.hasId(row, id) ? row : index.rowAbove(id, row);
}

function freshIdsOf(tree: Tree): Map<number, string> {
  const fresh = new Map<number, string>();
  for (let row = 0; row < tree.length; row++)
    if (tree.index.rowAbove(tree.idAt(row), row) >= 0) fresh.set(row, createId());
  return fresh;
}

/** Rows that others stand under or refer to. */
function neededRows(tree: Tree): Set<number> {
  const needed = new Set<number>();
  for (let row = 0; row < tree.length; row++) {
    needed.add(tree.index.parent(row));
    for (const field of REFERENCES) {
      const id = (tree.entryAt(row) as unknown as Record<string, unknown>)[field];
      if (typeof id === "string") needed.add(referredRow(tree, row, id, field));
    }
  }
  return needed;
}

function keepsItsLine(tree: Tree, row: number, freshIds: ReadonlyMap<number, string>): boolean {
  const parent = tree.index.parent(row);
  if (freshIds.has(row) || parent === ORPHAN || freshIds.has(parent)) return false;
  if (freshIds.size === 0) return true;
  const entry = tree.entryAt(row) as Entry & Record<string, unknown>;
  return REFERENCES.every((field) => {
    const id = entry[field];
    return typeof id !== "string" || !freshIds.has(referredRow(tree, row, id, field));
  });
}

/** The leaf that opening the copy would give, as a row of the original: the rule of `leafRowAt`, where nothing is lost. */
function leafOfCopy({ tree, actions }: RepairPlan): number {
  const movesLeaf = (row: number) =>
    actions[row] === "replaced" ? custom.movesLeaf : tree.kindAt(row).movesLeaf;
  const last = actions.findLastIndex((action) => action !== "left-out");
  if (last < 0) return ROOT;
  const { leafTarget } = tree.kindAt(last);
  let row = last;
  if (leafTarget && actions[last] !== "replaced") {
    const target = leafTarget(tree.entryAt(last));
    row = target === null ? ROOT : referredRow(tree, last, target);
  }
  while (row >= 0 && !movesLeaf(row)) row = tree.index.parent(row);
  return Math.max(row, ROOT);
}
