import { type ArchivedRows, archivedRows, rowsHidden } from "@espalier/engine/reading";
import { type ByteView, viewOf } from "@espalier/jsonl-stream";
import {
  branchSummary,
  type CompactionEntry,
  compaction,
  DrawnTree,
  type Entry,
  isMessage,
  kindOf,
  labelsInForce,
  leafOf,
  lineEnd,
  rowOfLeaf,
  rowsOf,
  sessionName,
  Tree,
  type TreeShape,
  titleOf,
} from "@espalier/session-tree";
import { BOOKKEEPING, outlineOf } from "@espalier/viewer/model";
import { previewEntry } from "../../entry-preview.ts";
import { formatCount } from "../../numbers.ts";
import { fieldText, plainLine } from "../../text.ts";
import type { Pause } from "../effects/task.ts";

/** A session as the screen shows it, from the index of its tree. Immutable: when the log grows, a new model is made. */
export interface TreeModel {
  readonly tree: Tree;
  /** Number of entries of this model; the tree may have grown since. */
  readonly length: number;
  /** One letter for each row, as in an outline. */
  readonly kinds: string;
  /** Gists of rows that were read. */
  readonly gists: Map<number, RowGist>;
  readonly order: TreeOrder;
  readonly leafId: string | null;
  /** Row of the leaf, or of its nearest ancestor that has a line; -1 without one. */
  readonly leafRow: number;
  /** One byte for each row: 1 for bookkeeping of an agent, which has no line while it is folded. */
  readonly bookkeeping: Uint8Array;
  /** True: bookkeeping has lines too. */
  readonly showsBookkeeping: boolean;
  readonly name: string | undefined;
  /** The name, else the first prompt. While only the end of the log was read: a name in this part, if any. */
  readonly title: string | undefined;
  /** Current labels by row. */
  readonly labels: ReadonlyMap<number, string>;
  /** Rows of the leaf's path that the model no longer reads: a compaction replaces them. */
  readonly archived: ArchivedRows;
  /** Rows of the leaf's path that an edit keeps from the model. */
  readonly hiddenRows: ReadonlySet<number>;
  /** Positions of compactions and labels, ascending, for the minimap. */
  readonly compactionPositions: readonly number[];
  readonly labelPositions: readonly number[];
  /** True while only the end of the log was read. */
  readonly isPartial: boolean;
}

/** @param known data about the same tree that was already read; isPartial is false by default */
export function treeModel(
  tree: Tree,
  {
    kinds = outlineOf(tree).kinds,
    showsBookkeeping = false,
    gists = new Map(),
    isPartial = false,
  }: Partial<Pick<TreeModel, "kinds" | "showsBookkeeping" | "gists" | "isPartial">> = {},
): TreeModel {
  const bookkeeping = bookkeepingOf(tree, kinds);
  const leafId = leafOf(tree);
  const labelled = [...labelsInForce(tree)].filter(([id]) => tree.has(id));
  const labels = new Map(labelled.map(([id, { label }]) => [tree.row(id), label]));
  const shape: TreeShape = {
    index: tree.index,
    kindAt(row) {
      const isLeftOut = !showsBookkeeping && bookkeeping[row] === 1 && !labels.has(row);
      return isLeftOut ? BESIDE : tree.kindAt(row);
    },
  };
  const order = new TreeOrder(shape, rowOfLeaf(tree));
  const positionsOf = (rows: Iterable<number>): number[] =>
    [...rows].flatMap((row) => order.positions[row] ?? []).sort((a, b) => a - b);
  const compactions = [...rowsOf(tree, compaction)].map(([row]) => row);
  return {
    tree,
    length: tree.length,
    kinds,
    bookkeeping,
    showsBookkeeping,
    gists,
    order,
    leafId,
    leafRow: order.shape.leafRow,
    name: sessionName(tree),
    title: isPartial ? sessionName(tree) : titleOf(tree),
    labels,
    archived: archivedRows({ tree, leafId }),
    hiddenRows: rowsHidden({ tree, leafId }),
    compactionPositions: positionsOf(compactions),
    labelPositions: positionsOf(labels.keys()),
    isPartial,
  };
}

/** A log of up to this many bytes is indexed before anything is shown, which takes a few milliseconds. */
const SHORT = 4_000_000;

/** Bytes at the end of a longer log that are shown until the whole log is read. */
const END = 400_000;

/** Bytes that are indexed before keys are handled again. */
const SLICE = 1_500_000;

/** Returns the model that can be shown at once: all of a short log, the end of a long one. */
export function firstModel(view: ByteView): TreeModel {
  const from = view.size <= SHORT ? 0 : lineBehind(view, view.size - END);
  const isPartial = from > 0 && from < view.size;
  return treeModel(new Tree(isPartial ? partView(view, from, view.size) : view), { isPartial });
}

/** Returns the model of the whole log; pauses so that keys are handled. */
export async function wholeModel(view: ByteView, pause: Pause): Promise<TreeModel> {
  const tree = new Tree(partView(view, 0, 0));
  let kinds = "";
  for (let end = 0; end < view.size; ) {
    end = lineBehind(view, Math.min(view.size, end + SLICE));
    tree.takeIn(end < view.size ? partView(view, 0, end) : view);
    kinds += outlineOf(tree, kinds.length).kinds;
    await pause();
  }
  return treeModel(tree, { kinds });
}

/** Returns the model of a log that has grown; undefined if it has not, and while only its end was read. */
export function grownModel(model: TreeModel, view: ByteView | undefined): TreeModel | undefined {
  const { tree, gists, isPartial } = model;
  if (!view || isPartial || tree.view.size === view.size) return undefined;
  tree.takeIn(view);
  const kinds = model.kinds + outlineOf(tree, model.kinds.length).kinds;
  return treeModel(tree, { kinds, gists });
}

const partView = (view: ByteView, from: number, to: number): ByteView =>
  viewOf(to - from, (offset, target) => view.readInto(from + offset, target));

/** Returns the offset of the first line that begins after `at`; the end of the view without one. */
const lineBehind = (view: ByteView, at: number): number => Math.min(view.size, lineEnd(view, at) + 1);

/** Kind of a row without a line. */
const BESIDE = { movesLeaf: false } as const;

/** Marks the rows that are bookkeeping of an agent, on the path or beside the conversation. */
function bookkeepingOf(tree: Tree, kinds: string): Uint8Array {
  const marks = new Uint8Array(kinds.length);
  for (let row = 0; row < kinds.length; row++)
    if (BOOKKEEPING.has(kinds[row]!) || !tree.kindAt(row).movesLeaf) marks[row] = 1;
  return marks;
}

/**
 * Order of a tree's rows on a page, root first. The path of the leaf goes straight down. Each side branch is indented
 * below the entry where it forks. Entries that are not part of the conversation are below the entry under which they
 * were written. Places on the page are called positions. The order is computed without reading entries.
 */
class TreeOrder {
  readonly shape: DrawnTree;
  readonly rows: Int32Array;
  /** Position of each row; -1 for a row without a position. */
  readonly positions: Int32Array;
  /** Indentation at each position. */
  readonly depths: Uint8Array;
  /** Positions at which side branches begin, ascending, and the position after the last row of each. */
  readonly branchStarts: readonly number[];
  readonly branchEnds: ReadonlyMap<number, number>;
  readonly length: number;
  readonly tree: TreeShape;

  constructor(tree: TreeShape, leafRow: number) {
    this.tree = tree;
    const count = tree.index.length;
    this.shape = new DrawnTree(tree, leafRow);
    this.rows = new Int32Array(count);
    this.positions = new Int32Array(count).fill(-1);
    this.depths = new Uint8Array(count);
    /** Rows that do not move the leaf, by the row of the conversation above them (-1: none). */
    const beside = new Map<number, number[]>();
    for (let row = 0; row < count; row++) {
      if (tree.kindAt(row).movesLeaf) continue;
      const above = this.shape.parent(row);
      const rows = beside.get(above);
      if (rows) rows.push(row);
      else beside.set(above, [row]);
    }
    const starts: number[] = [];
    const ends = new Map<number, number>();
    /** First positions of the side branches around the current row, the outermost first. */
    const open: number[] = [];
    let length = 0;
    const place = (row: number, depth: number) => {
      this.rows[length] = row;
      this.positions[row] = length;
      this.depths[length++] = depth;
      const under = beside.get(row);
      if (under) for (const other of under) place(other, depth);
    };
    for (const row of beside.get(-1) ?? []) place(row, 0);
    const drawn = this.shape.order();
    for (let at = 0; at < drawn.rows.length; at++) {
      const [row, depth] = [drawn.rows[at]!, drawn.depths[at]!];
      const isAside = this.shape.isAside(row);
      while (open.length > 0 && this.depths[open.at(-1)!]! >= depth + (isAside ? 0 : 1))
        ends.set(open.pop()!, length);
      if (isAside) {
        open.push(length);
        starts.push(length);
      }
      place(row, depth);
    }
    for (const start of open) ends.set(start, length);
    this.length = length;
    this.branchStarts = starts;
    this.branchEnds = ends;
  }

  /** Returns true for a row that has its own line in the conversation. */
  movesLeaf(row: number): boolean {
    return this.tree.kindAt(row).movesLeaf;
  }
}

/** Short description of a row's entry, independent of its place on the screen. */
interface RowGist {
  /** Name of its entry's kind; `shell` for a shell command, `·` without a name. */
  title: string;
  /** One line, safe for a terminal. */
  text: string;
  /** Epoch milliseconds; NaN if the entry has no time. */
  time: number;
}

/** Maximum number of kept gists. More than any screen shows, so that a key reads only newly visible rows. */
const KEPT = 2_000;

/** Returns the gist of a row. An entry is read once; kept gists are dropped together when there are 2,000. */
export function gistOfRow({ tree, gists }: TreeModel, row: number): RowGist {
  const known = gists.get(row);
  if (known) return known;
  if (gists.size >= KEPT) gists.clear();
  const entry = tree.entryAt(row);
  const title = isMessage(entry, "bashExecution") ? "shell" : plainLine(kindOf(entry).title ?? "·");
  const found = { title, text: plainLine(textOf(entry)), time: Date.parse(entry.timestamp) };
  gists.set(row, found);
  return found;
}

function textOf(entry: Entry): string {
  const text = previewEntry(entry) ?? "";
  if (compaction.is(entry)) return `compaction of ${formatCount(sizesOf(entry).before)} tokens  ${text}`;
  if (branchSummary.is(entry))
    return `summary of ${plainLine(fieldText(entry.fromId)).slice(0, 12) || "a branch"}  ${text}`;
  return text || entry.type;
}

/** Tokens of the context before and after a compaction; 0 before and null after it if they are not recorded. */
export function sizesOf({ tokensBefore, details }: CompactionEntry): {
  before: number;
  after: number | null;
} {
  const { tokensAfter } = (details ?? {}) as { tokensAfter?: unknown };
  return {
    before: typeof tokensBefore === "number" ? tokensBefore : 0,
    after: typeof tokensAfter === "number" ? tokensAfter : null,
  };
}

/** Kind of a row for people. */
export type RowKind = "user" | "assistant" | "toolResult" | "compaction" | "branch" | "other" | "beside";

/** Kinds by the letters of an outline; other letters are `other` or `beside`. */
const OF_LETTERS: Readonly<Record<string, RowKind>> = {
  u: "user",
  a: "assistant",
  t: "toolResult",
  c: "compaction",
  f: "branch",
};

export const kindOfRow = ({ kinds, order }: TreeModel, row: number): RowKind =>
  order.movesLeaf(row) ? (OF_LETTERS[kinds[row]!] ?? "other") : "beside";

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
  /** First rows of unfolded runs. */
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

/** Returns the index in `lines` of a position, or of the visible one before it, else 0; -1 when nothing is visible. */
export const lineNear = ({ lines }: TreeView, position: number): number =>
  lines.length === 0 ? -1 : Math.max(0, countBelow(lines, position + 1) - 1);

/** Counts the numbers of an ascending list that are less than `limit`. */
export function countBelow(numbers: readonly number[], limit: number): number {
  let low = 0;
  for (let high = numbers.length; low < high; ) {
    const middle = (low + high) >>> 1;
    if (numbers[middle]! < limit) low = middle + 1;
    else high = middle;
  }
  return low;
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
export const branchMeantBy = ({ order }: TreeModel, row: number): number =>
  order.branchEnds.has(order.positions[row] ?? -1) ? order.shape.end(row) : row;

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
