import type { RowKind, TreeModel } from "./tree-model.ts";

/** Selection of rows. `turns`: one for each turn, and every row that stands out of them. */
type TreeFilter = "turns" | "talk" | "users" | "labels" | "all";

export const FILTERS: readonly { name: TreeFilter; title: string }[] = [
  { name: "turns", title: "turns" },
  { name: "talk", title: "tools hidden" },
  { name: "users", title: "users only" },
  { name: "labels", title: "labelled only" },
  { name: "all", title: "everything" },
];

/** The visible part of a tree. */
export interface TreeView {
  readonly model: TreeModel;
  readonly filter: TreeFilter;
  /** Rows whose run is shown entry by entry. */
  readonly unfolded: ReadonlySet<number>;
  /** Rows with which a branch begins of which nothing else is shown. */
  readonly folded: ReadonlySet<number>;
  /** Positions that `folded` hides: `[from, to)`, ascending, none inside another. */
  readonly hidden: readonly (readonly [number, number])[];
}

export function treeView(
  model: TreeModel,
  { filter = "turns", unfolded = new Set(), folded = new Set() }: Partial<Omit<TreeView, "model">> = {},
): TreeView {
  return { model, filter, unfolded, folded, hidden: hiddenBy(model, folded) };
}

function hiddenBy({ order }: TreeModel, folded: ReadonlySet<number>): [number, number][] {
  const starts = [...folded].flatMap((row) => order.positions[row] ?? []).sort((a, b) => a - b);
  const hidden: [number, number][] = [];
  for (const start of starts) {
    const end = order.branchEnds.get(start);
    const last = hidden.at(-1);
    if (end === undefined || end <= start + 1 || (last && start < last[1])) continue;
    hidden.push([start + 1, end]);
  }
  return hidden;
}

/** The range of hidden positions that a position lies in. */
function rangeOver({ hidden }: TreeView, position: number): readonly [number, number] | undefined {
  let low = 0;
  for (let high = hidden.length; low < high; ) {
    const middle = (low + high) >>> 1;
    if (hidden[middle]![0] <= position) low = middle + 1;
    else high = middle;
  }
  const range = hidden[low - 1];
  return range && position < range[1] ? range : undefined;
}

export const rowAt = ({ order }: TreeModel, position: number): number => order.rows[position]!;
export const kindAt = (model: TreeModel, position: number): RowKind => model.kinds.of(rowAt(model, position));

/** True for rows that have a line of their own among folded runs: where one would look for something. */
export function standsOut(model: TreeModel, position: number): boolean {
  const row = rowAt(model, position);
  const { shape, branchEnds, depths } = model.order;
  if (row === model.leafRow || model.labels.has(row) || branchEnds.has(position)) return true;
  // What goes on behind branches that stand aside: a run does not reach over them.
  if (position > 0 && depths[position - 1]! > depths[position]!) return true;
  const kind = kindAt(model, position);
  if (kind === "user" || kind === "compaction" || kind === "branch") return true;
  if (kind === "beside") return false;
  return shape.parts(row) || shape.straight(row) < 0 || position === 0;
}

/** The position with which the run begins that a position is in: itself, where it stands out. */
export function headOf(model: TreeModel, position: number): number {
  let at = position;
  while (at > 0 && !standsOut(model, at)) at--;
  return at;
}

/** The position behind the run that begins at `head`; of what is looked at no more than `most` positions. */
export function runEnd(model: TreeModel, head: number, most = Number.POSITIVE_INFINITY): number {
  const end = Math.min(model.order.length, head + most);
  let at = head + 1;
  while (at < end && !standsOut(model, at)) at++;
  return at;
}

/** The row that is meant where branches are: of one with which a branch begins that stands aside, the end of that branch. */
export function branchMeantBy({ order }: TreeModel, row: number): number {
  if (!order.branchEnds.has(order.positions[row] ?? -1)) return row;
  let end = row;
  for (let at = row; at >= 0; at = order.shape.straight(at)) end = at;
  return end;
}

const SHOWS: Readonly<Record<Exclude<TreeFilter, "turns">, (model: TreeModel, position: number) => boolean>> =
  {
    talk: (model, position) => {
      const kind = kindAt(model, position);
      return kind !== "toolResult" && kind !== "beside" && (kind !== "other" || standsOut(model, position));
    },
    users: (model, position) => kindAt(model, position) === "user",
    labels: (model, position) => model.labels.has(rowAt(model, position)),
    all: () => true,
  };

/** The next position that is shown, from `from` on; -1 when there is none. */
export function shownFrom(view: TreeView, from: number): number {
  const { model, filter } = view;
  let head = -1;
  for (let at = Math.max(0, from); at < model.order.length; at++) {
    const range = rangeOver(view, at);
    if (range) {
      at = range[1] - 1;
      continue;
    }
    if (filter !== "turns") {
      if (SHOWS[filter](model, at)) return at;
      continue;
    }
    if (standsOut(model, at)) return at;
    if (kindAt(model, at) === "beside") continue;
    if (head < 0) head = headOf(model, at);
    if (view.unfolded.has(rowAt(model, head))) return at;
    at = runEnd(model, at) - 1;
    head = -1;
  }
  return -1;
}

/** The last position that is shown, up to `from`; -1 when there is none. */
export function shownUpTo(view: TreeView, from: number): number {
  const { model, filter } = view;
  for (let at = Math.min(from, model.order.length - 1); at >= 0; at--) {
    const range = rangeOver(view, at);
    if (range) at = range[0] - 1;
    if (filter !== "turns") {
      if (SHOWS[filter](model, at)) return at;
      continue;
    }
    if (standsOut(model, at)) return at;
    if (kindAt(model, at) === "beside") continue;
    const head = headOf(model, at);
    if (view.unfolded.has(rowAt(model, head))) return at;
    at = head + 1;
  }
  return -1;
}

/** The position that is shown at or near another one: before it, else behind it; -1 when nothing is shown. */
export function shownNear(view: TreeView, position: number): number {
  const before = shownUpTo(view, position);
  return before >= 0 ? before : shownFrom(view, position);
}

/** `count` steps further among what is shown, or as many as there are; stays where it is at the end. */
export function shownStep(view: TreeView, position: number, count: number): number {
  let at = position;
  for (let left = Math.abs(count); left > 0; left--) {
    const next = count > 0 ? shownFrom(view, at + 1) : shownUpTo(view, at - 1);
    if (next < 0) break;
    at = next;
  }
  return at;
}
