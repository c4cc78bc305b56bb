import { kindOfRow, type RowKind, type TreeModel } from "./tree-model.ts";

/** Filter of rows. `turns`: one row per turn, and every notable row. */
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
  /** Rows whose run is unfolded. */
  readonly unfolded: ReadonlySet<number>;
  /** First rows of folded side branches. */
  readonly folded: ReadonlySet<number>;
  /** Visible positions, ascending. */
  readonly lines: readonly number[];
}

export function treeView(
  model: TreeModel,
  { filter = "turns", unfolded = new Set(), folded = new Set() }: Partial<Omit<TreeView, "model">> = {},
): TreeView {
  const { length, branchEnds } = model.order;
  const lines: number[] = [];
  // True inside an unfolded run.
  let isUnfolded = false;
  for (let at = 0; at < length; at++) {
    const row = rowAt(model, at);
    if (filter !== "turns") {
      if (SHOWS[filter](model, at)) lines.push(at);
    } else {
      const isHead = standsOut(model, at);
      if (isHead || at === 0) isUnfolded = unfolded.has(row);
      if (isHead || (isUnfolded && kindAt(model, at) !== "beside")) lines.push(at);
    }
    if (folded.has(row)) at = (branchEnds.get(at) ?? at + 1) - 1;
  }
  return { model, filter, unfolded, folded, lines };
}

/** Returns the line of a position, or the one before it, else the first; -1 when nothing is visible. */
export function lineNear({ lines }: TreeView, position: number): number {
  let low = 0;
  for (let high = lines.length; low < high; ) {
    const middle = (low + high) >>> 1;
    if (lines[middle]! <= position) low = middle + 1;
    else high = middle;
  }
  return lines.length === 0 ? -1 : Math.max(0, low - 1);
}

export const rowAt = ({ order }: TreeModel, position: number): number => order.rows[position]!;
export const kindAt = (model: TreeModel, position: number): RowKind =>
  kindOfRow(model, rowAt(model, position));

/** Returns true for notable rows, which have a line of their own among folded runs. */
export function standsOut(model: TreeModel, position: number): boolean {
  const row = rowAt(model, position);
  const { shape, branchEnds, depths } = model.order;
  if (row === model.leafRow || model.labels.has(row) || branchEnds.has(position)) return true;
  // After side branches the path continues, and a run does not extend across them.
  if (position > 0 && depths[position - 1]! > depths[position]!) return true;
  const kind = kindAt(model, position);
  if (kind === "user" || kind === "compaction" || kind === "branch") return true;
  if (kind === "beside") return false;
  return shape.parts(row) || shape.straight(row) < 0 || position === 0;
}

/** Returns the first position of the run at a position; the position itself outside of runs. */
export function headOf(model: TreeModel, position: number): number {
  let at = position;
  while (at > 0 && !standsOut(model, at)) at--;
  return at;
}

/** Returns the position after the run that begins at `head`. Looks at no more than `most` positions. */
export function runEnd(model: TreeModel, head: number, most = Number.POSITIVE_INFINITY): number {
  const end = Math.min(model.order.length, head + most);
  let at = head + 1;
  while (at < end && !standsOut(model, at)) at++;
  return at;
}

/** Counts the folded entries after the head of a run. Looks at no more than `most` positions. */
export function foldedBehind(model: TreeModel, head: number, most: number): number {
  const end = runEnd(model, head, most);
  let count = 0;
  for (let at = head + 1; at < end; at++) if (kindAt(model, at) !== "beside") count++;
  return count;
}

/** Returns the row to act on: for the first row of a side branch the end of that branch, else the row itself. */
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
