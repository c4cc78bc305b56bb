import { parentOf, type TreeModel, treeModel } from "../tree/tree-model.ts";
import {
  FILTERS,
  foldedBehind,
  headOf,
  lineNear,
  rowAt,
  type TreeView,
  treeView,
} from "../tree/tree-rows.ts";
import { treeLayout } from "../view/layout.ts";
import type { TerminalState, TreeState } from "./state.ts";

type Sized = Pick<TerminalState, "size">;

const NOWHERE = -1;

const positionOf = (model: TreeModel, row: number): number =>
  row < 0 ? NOWHERE : (model.order.positions[row] ?? NOWHERE);

/** The position of the cursor; -1 where nothing is shown. */
export const cursorPosition = ({ view, cursor }: TreeState): number => positionOf(view.model, cursor);

/** The tree with the cursor at a position, or the one next to it that is shown, and the screen around it. */
export const moveTo = (state: Sized, tree: TreeState, position: number): TreeState =>
  moveToLine(state, tree, lineNear(tree.view, position));

function moveToLine(state: Sized, tree: TreeState, line: number): TreeState {
  const { view } = tree;
  const { lines, model } = view;
  if (lines.length === 0) return { ...tree, cursor: NOWHERE, top: NOWHERE, scroll: 0 };
  const at = Math.max(0, Math.min(line, lines.length - 1));
  const cursor = rowAt(model, lines[at]!);
  const { treeHeight } = treeLayout(state, false);
  const before = tree.top < 0 ? NOWHERE : lineNear(view, positionOf(model, tree.top));
  // As near to the screen before as can be, and without empty lines at its end.
  const near = before < 0 ? at - Math.floor(treeHeight / 2) : Math.max(before, at - treeHeight + 1);
  const top = Math.max(0, Math.min(near, at, lines.length - treeHeight));
  const scroll = cursor === tree.cursor ? tree.scroll : 0;
  return { ...tree, cursor, scroll, top: rowAt(model, lines[top]!) };
}

/** The tree with another view of it; the cursor stays where it was, or goes to what is shown next to it. */
export function withView(state: Sized, tree: TreeState, view: TreeView): TreeState {
  const position = positionOf(view.model, tree.cursor);
  return moveTo(state, { ...tree, view }, position);
}

/** The cursor so many shown rows further, at most to the first or the last. */
export const step = (state: Sized, tree: TreeState, count: number): TreeState =>
  moveToLine(state, tree, lineNear(tree.view, cursorPosition(tree)) + count);

/** Positions on the screen, from the first line on. */
export function shownOnScreen({ view, top }: TreeState, height: number): readonly number[] {
  const first = Math.max(0, lineNear(view, positionOf(view.model, top)));
  return view.lines.slice(first, first + height);
}

/** Shows what is folded at the cursor: the branch that begins there, or the run. */
export function unfold(state: Sized, tree: TreeState): TreeState {
  const { view, cursor } = tree;
  if (cursor < 0) return tree;
  if (view.folded.has(cursor)) return foldedAs(state, tree, without(view.folded, cursor));
  const position = cursorPosition(tree);
  const isRun = view.filter === "turns" && foldedBehind(view.model, position, Number.POSITIVE_INFINITY) > 0;
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

/** Folds every side branch, or unfolds all when all are folded. */
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

/** Gives bookkeeping of agents lines of its own, or takes them away; the cursor stays, or goes to what was said before. */
export function toggleBookkeeping(state: Sized, tree: TreeState): TreeState {
  const { view, cursor } = tree;
  const { model } = view;
  const shown = treeModel(model.tree, { ...model, showsBookkeeping: !model.showsBookkeeping });
  const hits = tree.hits.filter((row) => shown.order.movesLeaf(row));
  const at = cursor < 0 || shown.order.movesLeaf(cursor) ? cursor : parentOf(shown, cursor);
  return withView(state, { ...tree, hits, cursor: at }, treeView(shown, view));
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

/** A way to somewhere else in the tree: the position to go to, -1 when there is none. */
type Jump = (tree: TreeState, position: number) => number;

/** Returns true where branches part or begin. */
function isParting({ view: { model } }: TreeState, position: number): boolean {
  return model.order.branchEnds.has(position) || model.order.shape.parts(rowAt(model, position));
}

function search(tree: TreeState, from: number, step: 1 | -1, found: (position: number) => boolean): number {
  const { length } = tree.view.model.order;
  for (let at = from + step; at >= 0 && at < length; at += step) if (found(at)) return at;
  return -1;
}

export const nextParting: Jump = (tree, at) => search(tree, at, 1, (position) => isParting(tree, position));

export const previousParting: Jump = (tree, at) =>
  search(tree, at, -1, (position) => isParting(tree, position));

export const nextLabel: Jump = ({ view: { model } }, at) =>
  model.labelPositions.find((position) => position > at) ?? -1;

export const previousLabel: Jump = ({ view: { model } }, at) =>
  model.labelPositions.findLast((position) => position < at) ?? -1;

export const toLeaf: Jump = ({ view: { model } }) =>
  model.leafRow < 0 ? -1 : (model.order.positions[model.leafRow] ?? -1);

/** The beginning of the run, or else the parent. */
export const toParent: Jump = ({ view: { model } }, at) => {
  const head = headOf(model, at);
  if (head < at) return head;
  const parent = parentOf(model, rowAt(model, at));
  return parent < 0 ? -1 : headOf(model, model.order.positions[parent] ?? 0);
};

/**
 * The other side: from a branch to the next one that parts at the same place, from the last one to where it goes
 * straight on, and from there to the first one again.
 */
export const toOtherSide: Jump = ({ view: { model } }, at) => {
  const { order } = model;
  const { shape } = order;
  // Up to where the branch begins that this is on: the child of the nearest parting above.
  let row = rowAt(model, at);
  let parent = parentOf(model, row);
  while (parent >= 0 && !shape.parts(parent)) {
    row = parent;
    parent = parentOf(model, row);
  }
  const sides = parent < 0 ? [...shape.roots] : [...shape.aside(parent), shape.straight(parent)];
  if (sides.length < 2) return -1;
  const here = sides.indexOf(row);
  const side = sides[(here + 1) % sides.length]!;
  return order.positions[side] ?? -1;
};

/** The tree after a jump; branches that hide the place are unfolded. */
export function jump(state: Sized, tree: TreeState, to: Jump): TreeState {
  const position = to(tree, cursorPosition(tree));
  return position < 0 ? tree : reveal(state, tree, position);
}

/** The tree with the cursor at a position, which is made to be shown: nothing folded hides it. */
export function reveal(state: Sized, tree: TreeState, position: number): TreeState {
  const { view } = tree;
  const { model } = view;
  const covers = (row: number) => {
    const start = model.order.positions[row] ?? -1;
    return start < position && position < (model.order.branchEnds.get(start) ?? -1);
  };
  const folded = new Set([...view.folded].filter((row) => !covers(row)));
  const head = headOf(model, position);
  const unfolded =
    view.filter === "turns" && head !== position
      ? new Set([...view.unfolded, rowAt(model, head)])
      : view.unfolded;
  const isChanged = folded.size !== view.folded.size || unfolded !== view.unfolded;
  const shown = isChanged ? treeView(model, { ...view, folded, unfolded }) : view;
  return moveTo(state, { ...tree, view: shown }, position);
}
