import { formatAge, formatCount, formatMany } from "../../numbers.ts";
import { columnsOf, cutToColumns, NO_PROMPT, padToColumns, plainLine, projectOf } from "../../text.ts";
import { hitCount } from "../keys/tree-bindings.ts";
import {
  alignEnds,
  beside,
  fitLine,
  fitLines,
  type Line,
  line,
  lineWidth,
  type Span,
  type Style,
  selectLine,
  span,
} from "../screen/frame.ts";
import type { TerminalState, TreeState } from "../state/state.ts";
import { fieldLines, type TextField } from "../state/text-field.ts";
import { positionOf, shownOnScreen } from "../state/tree-cursor.ts";
import {
  countBelow,
  FILTERS,
  foldedBehind,
  gistOfRow,
  kindAt,
  type RowKind,
  rowAt,
  runEnd,
  standsOut,
  type TreeModel,
  type TreeView,
} from "../tree/tree-model.ts";
import { treeLayout } from "./layout.ts";
import { furthestScroll, previewLines, TABS } from "./preview.ts";

/** Draws the body of the tree's screen: the tree with its minimap, and the preview next to it or below it. */
export function viewTreeScreen(state: TerminalState, tree: TreeState): Line[] {
  const layout = treeLayout(state, tree.isReading);
  const preview = previewPane(state, tree);
  if (layout.preview === "whole") return preview;
  const rows = treePane(state, tree);
  if (layout.preview === "below") return [...rows, ...preview];
  return beside(rows, layout.treeColumns, span(" "), preview);
}

/** Maximum number of shown characters of the session's id; every command accepts the beginning of an id. */
const WHOLE_ID = 12;

/** Maximum share of the heading for facts. */
const FACTS_SHARE = 0.6;

/** Draws the heading of the tree's screen: the title, the project, the id, and facts on the right. */
export function treeHeading(tree: TreeState, columns: number): Line {
  const { view: shown, cwd, readOnly } = tree;
  const { model, filter } = shown;
  const title = plainLine(model.title ?? "") || (model.isPartial ? "" : NO_PROMPT);
  const facts = [
    model.isPartial ? "reading …" : formatMany(model.length, "entry", "entries"),
    ...(model.isPartial ? [] : [formatMany(model.order.branchStarts.length + 1, "branch", "branches")]),
    FILTERS.find(({ name }) => name === filter)!.title,
    ...(readOnly === undefined ? [] : ["read only"]),
    ...(tree.query === "" || tree.search ? [] : [`${hitCount(tree)} with ${plainLine(tree.query)}`]),
  ];
  // In a narrow terminal the title is more important than the facts.
  while (facts.length > 1 && columnsOf(facts.join(" · ")) > columns * FACTS_SHARE) facts.splice(-2, 1);
  const right = span(`${facts.join(" · ")} `, "dim");
  const room = Math.max(10, columns - columnsOf(right.text) - 2);
  const name = cutToColumns(title, room);
  // Parts that do not fit are left out, from the last one on.
  const parts = [projectOf(cwd), plainLine(model.tree.header?.id ?? "").slice(0, WHOLE_ID)];
  const rest: Span[] = [];
  for (const part of parts.filter((text) => text !== "")) {
    if (columnsOf(name) + lineWidth({ spans: rest }) + columnsOf(part) + 2 > room) break;
    rest.push(span(`  ${part}`, "dim"));
  }
  return alignEnds([span(` ${name}`, "heading"), ...rest], [right], columns);
}

/** Draws the query of a search while it is typed, and the number of hits. */
export function searchLine(tree: TreeState, field: TextField): Line {
  const count = tree.query === "" ? "Enter stays here, Esc goes back" : `${hitCount(tree)} · ↑↓`;
  return line(span(" /", "heading"), ...(fieldLines(field)[0]?.spans ?? []), span(`  ${count}`, "dim"));
}

function treePane(state: TerminalState, tree: TreeState): Line[] {
  const { treeColumns, treeHeight, preview } = treeLayout(state, tree.isReading);
  const { view, cursor, mark } = tree;
  // Next to the preview, the minimap is the line between the two.
  const edge = span(preview === "beside" ? "│" : " ", "dim");
  const positions = shownOnScreen(tree, treeHeight);
  const query = tree.query.toLowerCase();
  const look = { columns: treeColumns - 2, now: state.now, cursor, mark, query };
  const rows = positions.map((position) => rowLine(view, position, look));
  if (rows.length === 0) rows.push(line(span(emptyText(tree), "dim")));
  const isWhole = positions.length === view.lines.length;
  const map = isWhole ? [] : minimap(view.model, treeHeight, positions, edge);
  return fitLines(rows, treeHeight).map((row, at) => ({
    spans: [...fitLine(row, treeColumns - 2).spans, span(" "), map[at] ?? edge],
  }));
}

const emptyText = ({ view }: TreeState): string =>
  view.model.length === 0 ? "  This session has no entry yet." : "  The filter hides all rows; f changes it.";

function previewPane(state: TerminalState, tree: TreeState): Line[] {
  const { previewColumns, previewHeight } = treeLayout(state, tree.isReading);
  const scroll = furthestScroll(state, tree, tree.scroll);
  const { lines, isWhole } = previewLines(state, tree, scroll + previewHeight + 1);
  const query = tree.query.toLowerCase();
  const matched = lines
    .slice(scroll, scroll + previewHeight)
    .map(({ spans }): Line => ({ spans: spans.flatMap((one) => matchedSpans(one.text, one.style, query)) }));
  const shown = fitLines(matched, previewHeight);
  const left = lines.length - scroll - previewHeight;
  const count = isWhole ? `${left} more` : "more";
  const more = left > 0 ? `${scroll > 0 ? "↑" : " "}${count} ↓` : scroll > 0 ? "↑" : "";
  return [tabLine(tree, previewColumns, more), ...shown];
}

/** Draws the tabs and the number of further lines; on a narrow screen the other tabs are only numbers. */
function tabLine(tree: TreeState, columns: number, more: string): Line {
  const behind = more === "" ? [] : [span(` ${more} `, "dim")];
  for (const tabs of [tabSpans(tree, true), tabSpans(tree, false)]) {
    const rest = columns - lineWidth({ spans: [...tabs, ...behind] });
    if (rest >= 0) return { spans: [...tabs, span("─".repeat(rest), "dim"), ...behind] };
  }
  return fitLine({ spans: tabSpans(tree, false) }, columns);
}

function tabSpans({ tab }: TreeState, isNamed: boolean): Span[] {
  const spans: Span[] = [span("─", "dim")];
  for (const [at, { name, title }] of TABS.entries()) {
    const isShown = name === tab;
    const text = isShown || isNamed ? `${at + 1} ${title}` : `${at + 1}`;
    spans.push(span(isShown ? `[${text}]` : ` ${text} `, isShown ? "heading" : "dim"), span("─", "dim"));
  }
  return spans;
}

/** Names of kinds, of at most five characters, and styles. Rows without a name here have that of their entry's kind. */
const KINDS: Readonly<Record<RowKind, { title: string; style: Style }>> = {
  user: { title: "you", style: "user" },
  assistant: { title: "model", style: "model" },
  toolResult: { title: "tool", style: "tool" },
  compaction: { title: "≡", style: "summary" },
  branch: { title: "⇠", style: "summary" },
  other: { title: "", style: "dim" },
  beside: { title: "", style: "dim" },
};
const KIND_WIDTH = 5;

/** Maximum count of a run; a longer run is marked with `+`. */
const COUNTED = 1_000;

/** Maximum share of a line for branch lines; deeper branches show a number. */
const RAILS_SHARE = 0.4;

/** Minimum width in columns for the long note on a hidden entry; a narrower row has a short one. */
const WIDE = 100;

interface RowLook {
  columns: number;
  now: number;
  cursor: number;
  mark: number | undefined;
  /** Query of a search in lower case; empty without a search. */
  query: string;
}

/** Draws one row of the tree: cursor or mark, branch lines, sign, kind, text, and marks at its end. */
function rowLine(view: TreeView, position: number, look: RowLook): Line {
  const { model } = view;
  const row = rowAt(model, position);
  const { title, text: said, time } = gistOfRow(model, row);
  const isActive = model.order.shape.isActive(row);
  const isSelected = row === look.cursor;
  const kind = kindAt(model, position);
  const { title: name, style } = KINDS[kind];
  const shown: Style = isActive || kind === "compaction" || kind === "branch" ? style : "dim";
  const isRead = isActive && !model.archived.has(row) && !model.hiddenRows.has(row);
  const before = [
    span(isSelected ? "▸" : row === look.mark ? "◆" : " ", "leaf"),
    span(rails(model, position, look.columns), "dim"),
    span(isRead ? SIGNS.read : isActive ? SIGNS.replaced : SIGNS.aside, isRead ? "leaf" : "dim"),
    span(` ${padToColumns(cutToColumns(name || title, KIND_WIDTH), KIND_WIDTH)} `, shown),
  ];
  const behind = marks(view, position, row, time, look);
  const room = look.columns - lineWidth({ spans: [...before, ...behind] });
  const text = cutToColumns(said, Math.max(0, room));
  const tone = isActive ? (kind === "compaction" || kind === "branch" ? "summary" : "plain") : "dim";
  const gap = " ".repeat(Math.max(0, room - columnsOf(text)));
  const drawn = { spans: [...before, ...matchedSpans(text, tone, look.query), span(gap), ...behind] };
  return isSelected ? selectLine(drawn, look.columns) : drawn;
}

/** Symbols: `read` by the model; on the path of the leaf, but `replaced` or hidden; `aside`: not on this path. */
const SIGNS = { read: "●", replaced: "○", aside: "·" } as const;

/** Draws the lines that lead to a row: one for each branch to its left. */
function rails({ order }: TreeModel, position: number, columns: number): string {
  const depth = order.depths[position]!;
  if (depth === 0) return "";
  const begins = order.branchEnds.has(position);
  const parting = !begins ? "│ " : position === 0 ? "┌─" : "├─";
  // A deep branch shows its depth as a number.
  if (depth * 2 > columns * RAILS_SHARE) return `│ ${depth} ${parting}`;
  return "│ ".repeat(depth - 1) + parting;
}

/** Draws the end of a row: label, note of a hidden entry, folded entries, the leaf's sign, from 60 columns the age. */
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
    spans.push(span((Number.isFinite(age) ? formatAge(age) : "").padStart(AGE_WIDTH), "dim"));
  }
  return spans;
}

/** Width in columns of an age, with a gap before it: the longest age is `364 days`. */
const AGE_WIDTH = 10;

/** Draws the number of folded entries: `▸12` of a run, `▸▸12` of a branch; `▾` for an unfolded run. */
function foldedCount(view: TreeView, position: number, row: number): string {
  const { model, filter } = view;
  if (view.folded.has(row)) {
    const count = (model.order.branchEnds.get(position) ?? position) - position - 1;
    return count > 0 ? `▸▸${formatCount(count)}` : "";
  }
  if (filter !== "turns" || !standsOut(model, position)) return "";
  const count = foldedBehind(model, position, COUNTED);
  if (count === 0) return "";
  if (view.unfolded.has(row)) return "▾";
  const isAll = runEnd(model, position, COUNTED) < position + COUNTED;
  return `▸${formatCount(count)}${isAll ? "" : "+"}`;
}

/**
 * Draws the whole tree as one column of `height` cells. A cell shows the leaf, else a label, else a compaction, else
 * that its part of the tree is on the screen (`shown`), else `edge`.
 */
function minimap(model: TreeModel, height: number, shown: readonly number[], edge: Span): Span[] {
  const { length } = model.order;
  const leaf = positionOf(model, model.leafRow);
  const [first, last] = [shown[0] ?? 0, shown.at(-1) ?? 0];
  return Array.from({ length: height }, (_, cell) => {
    const from = Math.floor((cell * length) / height);
    const to = Math.max(from + 1, Math.floor(((cell + 1) * length) / height));
    if (leaf >= from && leaf < to) return span("*", "leaf");
    if (hasBetween(model.labelPositions, from, to)) return span("●", "label");
    if (hasBetween(model.compactionPositions, from, to)) return span("≡", "summary");
    return first < to && last >= from ? span("┃", "dim") : edge;
  });
}

/** Returns true when an ascending list has a number in `[from, to)`. */
const hasBetween = (numbers: readonly number[], from: number, to: number): boolean =>
  countBelow(numbers, from) < countBelow(numbers, to);

/** Splits a text into spans in which the query, in lower case, is highlighted; without a query there is one span. */
export function matchedSpans(text: string, style: Style, query: string): Span[] {
  if (query === "") return [span(text, style)];
  const spans: Span[] = [];
  const small = text.toLowerCase();
  let at = 0;
  // If the lower-case text has another length, its offsets do not fit the text.
  for (let found = small.length === text.length ? small.indexOf(query) : -1; found >= 0; ) {
    spans.push(span(text.slice(at, found), style), span(text.slice(found, found + query.length), "match"));
    at = found + query.length;
    found = small.indexOf(query, at);
  }
  return [...spans, span(text.slice(at), style)];
}
