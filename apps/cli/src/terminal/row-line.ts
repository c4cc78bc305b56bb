import { formatAge, formatCount } from "../numbers.ts";
import { plainLine } from "../plain-text.ts";
import { columnsOf, cutToColumns } from "../text-columns.ts";
import { type Line, type Span, type Style, selectLine, span } from "./frame.ts";
import { matchedSpans } from "./matched-spans.ts";
import type { RowKind } from "./row-kinds.ts";
import type { TreeModel } from "./tree-model.ts";
import { kindAt, rowAt, runEnd, standsOut, type TreeView } from "./tree-rows.ts";

/** Names of kinds in a column of five. */
const KINDS: Readonly<Record<RowKind, { title: string; style: Style }>> = {
  user: { title: "you", style: "user" },
  assistant: { title: "model", style: "model" },
  toolResult: { title: "tool", style: "tool" },
  compaction: { title: "≡", style: "summary" },
  branch: { title: "⇠", style: "summary" },
  other: { title: "·", style: "dim" },
  beside: { title: "·", style: "dim" },
};
const KIND_WIDTH = 5;

/** What kinds that say nothing to the model are called. */
const OTHERS = new Map(
  Object.entries<string>({
    shell: "shell",
    model_change: "uses",
    thinking_level_change: "think",
    custom: "state",
    custom_message: "note",
    context_edit: "edit",
    label: "label",
    session_info: "name",
    usage: "bill",
    leaf: "leaf",
  }),
);

/** How far a run is counted; beyond, it is said to be longer. */
const COUNTED = 1_000;

/** The share of a line that rails may take; deeper branches are told by a number. */
const RAILS_SHARE = 0.4;

/** Columns from which on a row has room for a sentence beside what it says. */
const WIDE = 100;

export interface RowLook {
  columns: number;
  now: number;
  cursor: number;
  mark: number | undefined;
  /** What is searched for, in small letters; empty: nothing is. */
  query: string;
}

/** One row of the tree: where it stands, who says what, how much hangs below it, its label. */
export function rowLine(view: TreeView, position: number, look: RowLook): Line {
  const { model } = view;
  const row = rowAt(model, position);
  const { type, text: said, time } = model.gists.of(row);
  const isActive = model.order.shape.isActive(row);
  const isSelected = row === look.cursor;
  const kind = kindAt(model, position);
  const { title: name, style } = KINDS[kind];
  const title = name === "·" ? (OTHERS.get(type) ?? name) : name;
  const shown: Style = isActive || kind === "compaction" || kind === "branch" ? style : "dim";
  const before = [
    span(isSelected ? "▸" : row === look.mark ? "◆" : " ", "leaf"),
    span(
      isActive ? (model.archived.has(row) || model.hiddenRows.has(row) ? "○ " : "● ") : "  ",
      isActive ? "leaf" : "dim",
    ),
    span(rails(model, position, look.columns), "dim"),
    span(`${title.padEnd(KIND_WIDTH)} `, shown),
  ];
  const behind = marks(view, position, row, time, look);
  const room = look.columns - widthOf(before) - widthOf(behind);
  const text = cutToColumns(said, Math.max(0, room));
  const tone = isActive ? (kind === "compaction" || kind === "branch" ? "summary" : "plain") : "dim";
  const gap = " ".repeat(Math.max(0, room - columnsOf(text)));
  const drawn = { spans: [...before, ...matchedSpans(text, tone, look.query), span(gap), ...behind] };
  return isSelected ? selectLine(drawn, look.columns) : drawn;
}

const widthOf = (spans: readonly Span[]): number =>
  spans.reduce((width, { text }) => width + columnsOf(text), 0);

function rails({ order }: TreeModel, position: number, columns: number): string {
  const depth = order.depths[position]!;
  if (depth === 0) return "";
  const begins = order.branchEnds.has(position);
  if (depth * 3 > columns * RAILS_SHARE) return `│ ${depth} ${begins ? "├─ " : "│  "}`;
  return "│  ".repeat(depth - 1) + (begins ? "├─ " : "│  ");
}

/** What stands at the end of a row: a label, what is hidden or folded, the leaf. */
function marks(view: TreeView, position: number, row: number, time: number, look: RowLook): Span[] {
  const { model } = view;
  const spans: Span[] = [];
  const label = model.labels.get(row);
  if (label !== undefined) spans.push(span(` [${cutToColumns(plainLine(label), 24)}]`, "label"));
  if (model.hiddenRows.has(row))
    spans.push(span(look.columns >= WIDE ? " hidden from the model" : " hidden", "summary"));
  const folded = foldedCount(view, position, row);
  if (folded) spans.push(span(` ${folded}`, "dim"));
  if (row === model.leafRow) spans.push(span(" *", "leaf"));
  if (look.columns >= 60) {
    const age = look.now - time;
    spans.push(span(` ${(Number.isFinite(age) ? formatAge(age) : "").padStart(8)}`, "dim"));
  }
  return spans;
}

/** `▸12`: so many entries are folded here; `▾`: they are shown. */
function foldedCount(view: TreeView, position: number, row: number): string {
  const { model, filter } = view;
  if (view.folded.has(row)) {
    const count = (model.order.branchEnds.get(position) ?? position) - position - 1;
    return count > 0 ? `▸▸${formatCount(count)}` : "";
  }
  if (filter !== "turns" || !standsOut(model, position)) return "";
  const count = runEnd(model, position, COUNTED) - position - 1;
  if (count <= 0) return "";
  if (view.unfolded.has(row)) return "▾";
  return `▸${formatCount(count)}${count === COUNTED - 1 ? "+" : ""}`;
}
