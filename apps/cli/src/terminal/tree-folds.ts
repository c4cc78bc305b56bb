import type { TerminalState, TreeState } from "./state.ts";
import { cursorPosition, moveTo, withView } from "./tree-cursor.ts";
import { FILTERS, headOf, rowAt, runEnd, treeView } from "./tree-rows.ts";

type Sized = Pick<TerminalState, "size">;

/** Shows what is folded at the cursor: the branch that begins there, or the run. */
export function unfold(state: Sized, tree: TreeState): TreeState {
  const { view, cursor } = tree;
  if (cursor < 0) return tree;
  if (view.folded.has(cursor)) return foldedAs(state, tree, without(view.folded, cursor));
  const position = cursorPosition(tree);
  const isRun = view.filter === "turns" && runEnd(view.model, position, 2) > position + 1;
  if (!isRun || view.unfolded.has(cursor)) return tree;
  return withView(
    state,
    tree,
    treeView(view.model, { ...view, unfolded: new Set([...view.unfolded, cursor]) }),
  );
}

/** Folds the run at the cursor; where none is unfolded, the branch it is on, at whose beginning one then is. */
export function fold(state: Sized, tree: TreeState): TreeState {
  const { view, cursor } = tree;
  if (cursor < 0) return tree;
  const { model } = view;
  const head = rowAt(model, headOf(model, cursorPosition(tree)));
  if (view.filter === "turns" && view.unfolded.has(head)) {
    const shown = treeView(model, { ...view, unfolded: without(view.unfolded, head) });
    return moveTo(state, { ...tree, view: shown }, model.order.positions[head] ?? 0);
  }
  const start = branchStart(tree);
  return start < 0 || view.folded.has(rowAt(model, start)) ? tree : foldBranch(state, tree, start);
}

/** Folds or unfolds, whichever is possible. */
export function toggle(state: Sized, tree: TreeState): TreeState {
  const unfolded = unfold(state, tree);
  return unfolded === tree ? fold(state, tree) : unfolded;
}

/** Folds every branch that stands aside, or unfolds all when all are folded. */
export function toggleAll(state: Sized, tree: TreeState): TreeState {
  const { model, folded } = tree.view;
  const starts = model.order.branchStarts.map((position) => rowAt(model, position));
  return foldedAs(state, tree, folded.size === starts.length ? new Set() : new Set(starts));
}

export function nextFilter(state: Sized, tree: TreeState): TreeState {
  const { view } = tree;
  const at = FILTERS.findIndex(({ name }) => name === view.filter);
  const { name } = FILTERS[(at + 1) % FILTERS.length]!;
  return withView(state, tree, treeView(view.model, { ...view, filter: name }));
}

function foldBranch(state: Sized, tree: TreeState, start: number): TreeState {
  const { model, folded } = tree.view;
  const shown = foldedAs(state, tree, new Set([...folded, rowAt(model, start)]));
  return moveTo(state, shown, start);
}

/** The position with which the innermost branch begins that the cursor is on; -1 on the one that goes straight down. */
function branchStart(tree: TreeState): number {
  const { order } = tree.view.model;
  const at = cursorPosition(tree);
  return (
    order.branchStarts.findLast((start) => start <= at && at < (order.branchEnds.get(start) ?? -1)) ?? -1
  );
}

const foldedAs = (state: Sized, tree: TreeState, folded: ReadonlySet<number>): TreeState =>
  withView(state, tree, treeView(tree.view.model, { ...tree.view, folded }));

function without(rows: ReadonlySet<number>, row: number): Set<number> {
  const rest = new Set(rows);
  rest.delete(row);
  return rest;
}
