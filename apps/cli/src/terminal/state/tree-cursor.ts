import {
  FILTERS,
  foldedBehind,
  headOf,
  lineNear,
  rowAt,
  type TreeModel,
  type TreeView,
  treeModel,
  treeView,
} from "../tree/tree-model.ts";
import { noticeTexts, treeLayout } from "../view/layout.ts";
import type { TerminalState, TreeState } from "./state.ts";

type Sized = Pick<TerminalState, "size">;

const NOWHERE = -1;

/** Position of a row; -1 for a row without one. */
export const positionOf = ({ order }: TreeModel, row: number): number =>
  row < 0 ? NOWHERE : (order.positions[row] ?? NOWHERE);

/** Position of the cursor; -1 when no row is visible. */
export const cursorPosition = ({ view, cursor }: TreeState): number => positionOf(view.model, cursor);

/** Moves the cursor to a position, else to the visible one before it, else to the first one, and scrolls to it. */
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
  // Scrolls as little as possible, without empty lines at the end.
  const near = before < 0 ? at - Math.floor(treeHeight / 2) : Math.max(before, at - treeHeight + 1);
  const top = Math.max(0, Math.min(near, at, lines.length - treeHeight));
  const scroll = cursor === tree.cursor ? tree.scroll : 0;
  return { ...tree, cursor, scroll, top: rowAt(model, lines[top]!) };
}

/** Replaces the view of the tree; the cursor stays, or moves to the visible row before it, else to the first one. */
export function withView(state: Sized, tree: TreeState, view: TreeView): TreeState {
  const position = positionOf(view.model, tree.cursor);
  return moveTo(state, { ...tree, view }, position);
}

/** Shows another part of the tree; the cursor moves like that of {@link withView}. */
const withShown = (state: Sized, tree: TreeState, change: Partial<TreeView>): TreeState =>
  withView(state, tree, treeView(tree.view.model, { ...tree.view, ...change }));

/** Moves the cursor by this many visible rows, at most to the first or last one. */
export const step = (state: Sized, tree: TreeState, count: number): TreeState =>
  moveToLine(state, tree, lineNear(tree.view, cursorPosition(tree)) + count);

/** Returns the tree positions of the rows on the screen, top row first; at most `height`. */
export function shownOnScreen({ view, top }: TreeState, height: number): readonly number[] {
  const first = Math.max(0, lineNear(view, positionOf(view.model, top)));
  return view.lines.slice(first, first + height);
}

/**
 * Returns the number of rows at the top of the body that are left out for a notice of several lines. Rows are left out
 * only beside a preview, and only above the cursor: after most acts the cursor is on the leaf, in the last row of the
 * tree. Otherwise returns 0, and the notice covers the last rows.
 */
export function coveredAbove(state: TerminalState): number {
  const { tree } = state;
  if (!tree || treeLayout(state, tree.isReading).preview !== "beside") return 0;
  const covered = Math.max(0, noticeTexts(state).length - 1);
  const at = shownOnScreen(tree, treeLayout(state, false).treeHeight).indexOf(cursorPosition(tree));
  return at >= covered ? covered : 0;
}

/** Unfolds the branch or the run at the cursor. */
export function unfold(state: Sized, tree: TreeState): TreeState {
  const { view, cursor } = tree;
  if (cursor < 0) return tree;
  if (view.folded.has(cursor)) return withShown(state, tree, { folded: without(view.folded, cursor) });
  const position = cursorPosition(tree);
  const isRun = view.filter === "turns" && foldedBehind(view.model, position, Number.POSITIVE_INFINITY) > 0;
  if (!isRun || view.unfolded.has(cursor)) return tree;
  return withShown(state, tree, { unfolded: new Set([...view.unfolded, cursor]) });
}

/** Folds the run at the cursor. Without an unfolded run, it folds the branch and moves to its beginning. */
export function fold(state: Sized, tree: TreeState): TreeState {
  const { view, cursor } = tree;
  if (cursor < 0) return tree;
  const { model } = view;
  const at = cursorPosition(tree);
  const head = headOf(model, at);
  const unfolded = without(view.unfolded, rowAt(model, head));
  if (view.filter === "turns" && unfolded.size < view.unfolded.size)
    return moveTo(state, withShown(state, tree, { unfolded }), head);
  // The first position of the innermost side branch.
  const { branchStarts, branchEnds } = model.order;
  const start = branchStarts.findLast((from) => from <= at && at < (branchEnds.get(from) ?? -1)) ?? -1;
  if (start < 0 || view.folded.has(rowAt(model, start))) return tree;
  const folded = new Set([...view.folded, rowAt(model, start)]);
  return moveTo(state, withShown(state, tree, { folded }), start);
}

/** Unfolds what is folded at the cursor, else folds there. */
export function toggle(state: Sized, tree: TreeState): TreeState {
  const unfolded = unfold(state, tree);
  return unfolded === tree ? fold(state, tree) : unfolded;
}

/** Folds every side branch, or unfolds all when all are folded. */
export function toggleAll(state: Sized, tree: TreeState): TreeState {
  const { model, folded } = tree.view;
  const starts = model.order.branchStarts.map((position) => rowAt(model, position));
  return withShown(state, tree, { folded: new Set(folded.size === starts.length ? [] : starts) });
}

export function nextFilter(state: Sized, tree: TreeState): TreeState {
  const at = FILTERS.findIndex(({ name }) => name === tree.view.filter);
  const { name } = FILTERS[(at + 1) % FILTERS.length]!;
  return withShown(state, tree, { filter: name });
}

/** Shows or folds the bookkeeping of agents; the cursor stays, or moves to its nearest ancestor that is shown. */
export function toggleBookkeeping(state: Sized, tree: TreeState): TreeState {
  const { view, cursor } = tree;
  const { model } = view;
  const shown = treeModel(model.tree, { ...model, showsBookkeeping: !model.showsBookkeeping });
  const hits = tree.hits.filter((row) => shown.order.movesLeaf(row));
  const at = cursor < 0 || shown.order.movesLeaf(cursor) ? cursor : shown.order.shape.parent(cursor);
  return withView(state, { ...tree, hits, cursor: at }, treeView(shown, view));
}

function without(rows: ReadonlySet<number>, row: number): Set<number> {
  const rest = new Set(rows);
  rest.delete(row);
  return rest;
}

/** A jump in the tree: returns the target position, -1 without a target. */
type Jump = (tree: TreeState, position: number) => number;

/** Jumps to the next row where branches fork or begin; with -1, to the previous one. */
export const toParting =
  (step: 1 | -1): Jump =>
  ({ view: { model } }, from) => {
    const { branchEnds, shape, length } = model.order;
    for (let at = from + step; at >= 0 && at < length; at += step)
      if (branchEnds.has(at) || shape.parts(rowAt(model, at))) return at;
    return -1;
  };

export const nextLabel: Jump = ({ view: { model } }, at) =>
  model.labelPositions.find((position) => position > at) ?? -1;

export const previousLabel: Jump = ({ view: { model } }, at) =>
  model.labelPositions.findLast((position) => position < at) ?? -1;

export const toLeaf: Jump = ({ view: { model } }) => positionOf(model, model.leafRow);

/** Jumps to the beginning of the run, else to the parent. */
export const toParent: Jump = ({ view: { model } }, at) => {
  const head = headOf(model, at);
  if (head < at) return head;
  const parent = model.order.shape.parent(rowAt(model, at));
  return parent < 0 ? -1 : headOf(model, model.order.positions[parent] ?? 0);
};

/**
 * Jumps to the other side of a fork: from a branch to the next branch of the same fork, from the last branch to the
 * main continuation, and from there to the first branch.
 */
export const toOtherSide: Jump = ({ view: { model } }, at) => {
  const { shape } = model.order;
  // Goes up to the beginning of the current branch: the child of the nearest fork above.
  let row = rowAt(model, at);
  let parent = shape.parent(row);
  while (parent >= 0 && !shape.parts(parent)) {
    row = parent;
    parent = shape.parent(row);
  }
  const sides = parent < 0 ? [...shape.roots] : [...shape.aside(parent), shape.straight(parent)];
  if (sides.length < 2) return -1;
  return positionOf(model, sides[(sides.indexOf(row) + 1) % sides.length]!);
};

/** Moves the cursor by a jump and unfolds everything that hides the target; the same tree without a target. */
export function jump(state: Sized, tree: TreeState, to: Jump): TreeState {
  const position = to(tree, cursorPosition(tree));
  return position < 0 ? tree : reveal(state, tree, position);
}

/** Moves the cursor to a position and unfolds everything that hides it. */
export function reveal(state: Sized, tree: TreeState, position: number): TreeState {
  const { view } = tree;
  const { model } = view;
  const covers = (row: number) => {
    const start = positionOf(model, row);
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

/**
 * Returns the tree with a new model of its log. A cursor on the leaf follows the leaf. Other cursors, the mark, folds
 * and hits stay at their entries; the tabs are emptied.
 */
export function withModel(state: Sized, tree: TreeState, read: TreeModel): TreeState {
  const { view, cursor, top, mark } = tree;
  const before = view.model;
  const { showsBookkeeping } = before;
  const model =
    read.showsBookkeeping === showsBookkeeping ? read : treeModel(read.tree, { ...read, showsBookkeeping });
  // Row numbers were different while only the end of the log was read.
  const row = (old: number): number => {
    if (before.tree === model.tree || old < 0) return old;
    const id = before.tree.idAt(old);
    return model.tree.has(id) ? model.tree.row(id) : -1;
  };
  const rows = (old: ReadonlySet<number>) => new Set([...old].map(row).filter((at) => at >= 0));
  const shown = treeView(model, { ...view, unfolded: rows(view.unfolded), folded: rows(view.folded) });
  const isFollowing = cursor === before.leafRow;
  const isAwaiting = cursor === tree.awaits;
  const moved: TreeState = {
    ...tree,
    view: shown,
    cursor: row(cursor),
    top: row(top),
    mark: mark === undefined ? undefined : row(mark),
    search: tree.search && { ...tree.search, from: row(tree.search.from) },
    hits: tree.hits.map(row).filter((at) => at >= 0),
    tabs: {},
  };
  const placed =
    isFollowing && model.leafRow >= 0
      ? reveal(state, moved, positionOf(model, model.leafRow))
      : withView(state, moved, shown);
  return { ...placed, awaits: isAwaiting ? placed.cursor : undefined };
}
