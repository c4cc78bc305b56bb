import type { TerminalState, TreeState } from "./state.ts";
import { cursorPosition, moveTo } from "./tree-cursor.ts";
import { headOf, rowAt, treeView } from "./tree-rows.ts";

/** A way to somewhere else in the tree: the position to go to, -1 when there is none. */
type Jump = (tree: TreeState, position: number) => number;

/** Whether a branch parts at a position, or begins there. */
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

/** Where one came from: the beginning of the run, or else the parent. */
export const toParent: Jump = ({ view: { model } }, at) => {
  const head = headOf(model, at);
  if (head < at) return head;
  const parent = model.tree.index.parent(rowAt(model, at));
  return parent < 0 ? -1 : headOf(model, model.order.positions[parent] ?? 0);
};

/**
 * The other side: from a branch to the next one that parts at the same place, from the last one to where it goes
 * straight on, and from there to the first one again.
 */
export const toOtherSide: Jump = ({ view: { model } }, at) => {
  const { order, tree } = model;
  const { shape } = order;
  // Up to where the branch begins that this is on: the child of the nearest parting above.
  let row = rowAt(model, at);
  let parent = tree.index.parent(row);
  while (parent >= 0 && !shape.parts(parent)) {
    row = parent;
    parent = tree.index.parent(row);
  }
  const sides = parent < 0 ? [...shape.roots] : [...shape.aside(parent), shape.straight(parent)];
  if (sides.length < 2) return -1;
  const here = sides.indexOf(row);
  const side = sides[(here + 1) % sides.length]!;
  return order.positions[side] ?? -1;
};

/** The tree after a jump; branches that hide the place are unfolded. */
export function jump(state: Pick<TerminalState, "size">, tree: TreeState, to: Jump): TreeState {
  const position = to(tree, cursorPosition(tree));
  return position < 0 ? tree : revealed(state, tree, position);
}

/** The tree with the cursor at a position, which is made to be shown: nothing folded hides it. */
export function revealed(state: Pick<TerminalState, "size">, tree: TreeState, position: number): TreeState {
  const { view } = tree;
  const { model } = view;
  const isHidden = view.hidden.some(([from, to]) => from <= position && position < to);
  const folded = isHidden
    ? new Set(
        [...view.folded].filter((row) => {
          const start = model.order.positions[row] ?? -1;
          return !(start < position && position < (model.order.branchEnds.get(start) ?? -1));
        }),
      )
    : view.folded;
  const head = headOf(model, position);
  const unfolded =
    view.filter === "turns" && head !== position
      ? new Set([...view.unfolded, rowAt(model, head)])
      : view.unfolded;
  const isChanged = folded !== view.folded || unfolded !== view.unfolded;
  const shown = isChanged ? treeView(model, { ...view, folded, unfolded }) : view;
  return moveTo(state, { ...tree, view: shown }, position);
}
