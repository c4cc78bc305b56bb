import { treeLayout } from "./layout.ts";
import type { TerminalState, TreeState } from "./state.ts";
import type { TreeModel } from "./tree-model.ts";
import { rowAt, shownFrom, shownNear, shownStep, shownUpTo, type TreeView } from "./tree-rows.ts";

const NOWHERE = -1;

const positionOf = (model: TreeModel, row: number): number =>
  row < 0 ? NOWHERE : (model.order.positions[row] ?? NOWHERE);

/** The position of the cursor; -1 where nothing is shown. */
export const cursorPosition = ({ view, cursor }: TreeState): number => positionOf(view.model, cursor);

/** The tree with the cursor at a position, or the one next to it that is shown, and the screen around it. */
export function moveTo(state: Pick<TerminalState, "size">, tree: TreeState, position: number): TreeState {
  const { view } = tree;
  const at = position < 0 ? shownFrom(view, 0) : shownNear(view, position);
  if (at < 0) return { ...tree, cursor: NOWHERE, top: NOWHERE, scroll: 0 };
  const cursor = rowAt(view.model, at);
  const moved = { ...tree, cursor, scroll: cursor === tree.cursor ? tree.scroll : 0 };
  const { treeHeight } = treeLayout(state, false);
  return { ...moved, top: rowAt(view.model, topFor(view, positionOf(view.model, tree.top), at, treeHeight)) };
}

/** The first position of a screen on which the cursor is, as near to the one before as can be. */
function topFor(view: TreeView, before: number, cursor: number, height: number): number {
  const top = before < 0 ? NOWHERE : shownNear(view, before);
  if (top >= 0 && top <= cursor) {
    // Is the cursor on the screen that begins there? Not more than a screen has to be looked at.
    let at = top;
    for (let line = 0; line < height && at >= 0; line++) {
      if (at === cursor) return withoutGap(view, top, height);
      at = shownFrom(view, at + 1);
    }
    return shownStep(view, cursor, -(height - 1));
  }
  return top < 0 ? shownStep(view, cursor, -Math.floor(height / 2)) : cursor;
}

/** Moves a screen up that would be empty at its end although there is more above it. */
function withoutGap(view: TreeView, top: number, height: number): number {
  let lines = 0;
  for (let at = top; at >= 0 && lines < height; at = shownFrom(view, at + 1)) lines++;
  return lines < height ? shownStep(view, top, -(height - lines)) : top;
}

/** The tree with another view of it; the cursor stays where it was, or goes to what is shown next to it. */
export function withView(state: Pick<TerminalState, "size">, tree: TreeState, view: TreeView): TreeState {
  const position = positionOf(view.model, tree.cursor);
  return moveTo(state, { ...tree, view }, position);
}

/** The cursor so many shown rows further. */
export function step(state: Pick<TerminalState, "size">, tree: TreeState, count: number): TreeState {
  const position = cursorPosition(tree);
  return position < 0 ? tree : moveTo(state, tree, shownStep(tree.view, position, count));
}

export const toFirst = (state: Pick<TerminalState, "size">, tree: TreeState): TreeState =>
  moveTo(state, tree, shownFrom(tree.view, 0));

export const toLast = (state: Pick<TerminalState, "size">, tree: TreeState): TreeState =>
  moveTo(state, tree, shownUpTo(tree.view, tree.view.model.order.length - 1));

/** Positions on the screen, from the first line on. */
export function shownOnScreen({ view, top }: TreeState, height: number): number[] {
  const positions: number[] = [];
  let at = positionOf(view.model, top);
  if (at >= 0) at = shownFrom(view, at);
  for (; at >= 0 && positions.length < height; at = shownFrom(view, at + 1)) positions.push(at);
  return positions;
}
