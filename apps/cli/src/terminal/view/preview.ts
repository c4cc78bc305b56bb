import {
  type BranchSummaryEntry,
  branchSummary,
  type CompactionEntry,
  type ContextMessage,
  compaction,
  contentBlocks,
  contentText,
  customMessage,
  type Entry,
  isFailedAnswer,
  message,
  messageText,
  type ToolCallBlock,
  toolCalls,
} from "@espalier/session-tree";
import picocolors from "picocolors";
import { previewEntry } from "../../entry-preview.ts";
import { renderMarkdown, wrapLiteral, wrapText } from "../../markdown/markdown.ts";
import { formatChange, formatMany, formatTime } from "../../numbers.ts";
import { cutLine, fieldText, plainLine, plainText } from "../../text.ts";
import { EMPTY, type Line, line, type Span, type Style, span } from "../screen/frame.ts";
import type { PreviewTab, TerminalState, TreeState } from "../state/state.ts";
import { cursorPosition } from "../state/tree-cursor.ts";
import { kindOfRow, rowAt, runEnd, sizesOf, standsOut, type TreeModel } from "../tree/tree-model.ts";
import { treeLayout } from "./layout.ts";
import { roleLook } from "./tabs.ts";

export const TABS: readonly { name: PreviewTab; title: string }[] = [
  { name: "entry", title: "what was said" },
  { name: "context", title: "what the model reads here" },
  { name: "usage", title: "usage and cost" },
];

/** Maximum number of entries of a folded run that are laid out; the user unfolds a longer run to read it. */
const RUN_SHOWN = 40;

type Looked = Pick<TerminalState, "size" | "isColoured">;

/** Lines of a preview that were laid out. */
interface Laid {
  lines: readonly Line[];
  /** False if there are more lines. */
  isWhole: boolean;
}

/** Returns lines of the preview: at least `needed`, or all. */
export function previewLines(state: Looked, tree: TreeState, needed: number): Laid {
  if (tree.cursor < 0) return whole([line(span("There is nothing in this session yet.", "dim"))]);
  const columns = treeLayout(state, tree.isReading).previewColumns;
  if (tree.tab === "entry")
    return layRun(tree, { columns, isDetailed: tree.isDetailed, isColoured: state.isColoured }, needed);
  const read = tree.tabs[tree.tab];
  return read?.row === tree.cursor ? whole(read.lines(columns)) : WAITING;
}

const whole = (lines: readonly Line[]): Laid => ({ lines, isWhole: true });
const WAITING = whole([line(span("…", "dim"))]);

/**
 * The last layout of an entry or a run, and the first position after it. A key that only scrolls needs the same lines,
 * or a few more, so it continues this layout.
 */
let laid: { model: TreeModel; key: string; lines: Line[]; next: number } | undefined;

const DETAILED_LENGTH = 1_000_000;

/** Maximum number of lines of a tool's result while it is shortened. */
const RESULT_LINES = 4;

/** Maximum number of characters of a text that are laid out while it is shortened; the others are only counted. */
const TEXT_LENGTH = 20_000;

/** Codes that end one style, or all. */
const ENDS: ReadonlySet<string> = new Set(["0", "22", "23", "24", "29", "39"]);

/** Codes that begin a style of picocolors, with our style for each. */
const STYLES: Readonly<Record<string, Style>> = {
  "1": "strong",
  "2": "dim",
  "3": "strong",
  "4": "label",
  "9": "dim",
  "36": "code",
};

const quoted = (text: string, look: EntryLook): Line[] =>
  wrapLiteral(cutText(plainText(text), look), look.columns - 2).map((one) => line(span(`│ ${one}`, "dim")));

const thoughtLine = (thought: string): Line =>
  line(span(`(thought, ${formatMany(thought.length, "character")})`, "dim"));

function layRun(tree: TreeState, look: EntryLook, needed: number): Laid {
  const { view, cursor } = tree;
  const { model } = view;
  const position = cursorPosition(tree);
  const isFolded = view.filter === "turns" && standsOut(model, position) && !view.unfolded.has(cursor);
  const end = isFolded ? runEnd(model, position, RUN_SHOWN) : position + 1;
  const key = JSON.stringify([cursor, end, look]);
  if (laid?.model !== model || laid.key !== key) laid = { model, key, lines: [], next: position };
  while (laid.next < end && laid.lines.length < needed) {
    const row = rowAt(model, laid.next++);
    if (row !== cursor && kindOfRow(model, row) === "beside") continue;
    for (const one of entryLines(model, row, look, row !== cursor)) laid.lines.push(one);
    if (laid.next === end && end - position >= RUN_SHOWN)
      laid.lines.push(line(span("… unfold the turn to read more", "dim")));
  }
  return { lines: laid.lines, isWhole: laid.next >= end };
}

/** Returns the wanted scroll position, at most the end of the preview. */
export function furthestScroll(state: Looked, tree: TreeState, wanted: number): number {
  const { previewHeight } = treeLayout(state, tree.isReading);
  const { lines } = previewLines(state, tree, wanted + previewHeight);
  return Math.max(0, Math.min(wanted, lines.length - previewHeight));
}

interface EntryLook {
  columns: number;
  /** True: calls, results and thoughts are shown in full; a text is cut only after 1,000,000 characters. */
  isDetailed: boolean;
  isColoured: boolean;
}

/**
 * Draws an entry for reading: role or kind, id, time and label, then the content, as markdown unless a user wrote it.
 * An empty line separates the entry from an earlier one, unless it is a result.
 */
function entryLines(model: TreeModel, row: number, look: EntryLook, isBehind: boolean): Line[] {
  const entry = model.tree.entryAt(row);
  const label = model.labels.get(row);
  const name = label === undefined ? [] : [span(` [${plainLine(label)}]`, "label")];
  const hidden = model.hiddenRows.has(row) ? [span("  hidden from the model", "summary")] : [];
  const facts = [entry.id, formatTime(entry.timestamp)].filter(Boolean).map(plainLine).join(" · ");
  const said = message.is(entry) ? entry.message : undefined;
  const { title, style } = said
    ? roleLook(said.role)
    : { title: kindTitle(entry), style: "summary" as const };
  const heading = line(span(plainLine(title), style), ...hidden, span(`  ${facts}`, "dim"), ...name);
  const lines = [heading, ...(said ? messageLines(said, look) : restLines(entry, look))];
  return isBehind && said?.role !== "toolResult" ? [EMPTY, ...lines] : lines;
}

function kindTitle(entry: Entry): string {
  if (customMessage.is(entry)) return `note of ${fieldText(entry.customType) || "an extension"}`;
  return branchSummary.is(entry) ? "summary of a branch" : entry.type;
}

function restLines(entry: Entry, look: EntryLook): Line[] {
  if (compaction.is(entry)) return [compactionFacts(entry), ...textLines(entry.summary, look)];
  if (branchSummary.is(entry)) return [branchFacts(entry), ...textLines(entry.summary, look)];
  if (customMessage.is(entry)) return literalLines(contentText(entry), look);
  return wrapText(previewEntry(entry) ?? "", look.columns).map((text) => line(text));
}

function compactionFacts(entry: CompactionEntry): Line {
  const { id, firstKeptEntryId } = entry;
  const { before, after } = sizesOf(entry);
  const kept =
    firstKeptEntryId === id ? "nothing before it is kept" : `keeps from ${plainLine(firstKeptEntryId)}`;
  return line(span(`${formatChange(before, after)} tokens · ${kept}`, "dim"));
}

const branchFacts = ({ fromId }: BranchSummaryEntry): Line =>
  line(span(`conclusion of the branch up to ${plainLine(fieldText(fromId)) || "an unknown entry"}`, "dim"));

/**
 * Draws a message: text, images and thoughts, calls, and the reason of a failure. Of a tool's result or a shell
 * command's output, draws the beginning, or all of it if details are shown.
 */
function* messageLines(said: ContextMessage, look: EntryLook): Generator<Line> {
  if (said.role === "toolResult") {
    yield* resultLines(messageText(said), fieldText(said.toolName), said.isError === true, look);
    return;
  }
  if (said.role === "bashExecution") {
    yield line(span(cutLine(plainLine(`$ ${fieldText(said.command)}`), look.columns), "code"));
    yield* resultLines(fieldText(said.output), "", false, look);
    return;
  }
  const text = messageText(said);
  // Text of a person is not markdown; its white space and line breaks are kept.
  yield* said.role === "user" ? literalLines(text, look) : textLines(text, look);
  for (const block of contentBlocks(said)) {
    if (block.type === "image")
      yield line(span(plainLine(`(an image, ${fieldText(block.mimeType) || "of unknown type"})`), "dim"));
    const thought = block.type === "thinking" ? fieldText(block.thinking) : "";
    if (thought !== "") yield* look.isDetailed ? quoted(thought, look) : [thoughtLine(thought)];
  }
  for (const call of toolCalls(said)) yield* callLines(call, look);
  if (!isFailedAnswer(said)) return;
  const { stopReason, errorMessage } = said as { stopReason: string; errorMessage?: unknown };
  const why = fieldText(errorMessage);
  // Some agents record the message of an error also as the text of the answer.
  const ending = plainLine(`(${stopReason}) ${why === text ? "" : why}`).trimEnd();
  for (const one of wrapText(ending, look.columns)) yield line(span(one, "error"));
}

function textLines(text: string, look: EntryLook): Line[] {
  if (text.trim() === "") return [];
  const colours = picocolors.createColors(look.isColoured);
  return renderMarkdown(cutText(text, look), { columns: look.columns, colours }).map(styledLine);
}

const literalLines = (text: string, look: EntryLook): Line[] =>
  text.trim() === "" ? [] : wrapLiteral(cutText(plainText(text), look), look.columns).map((one) => line(one));

function cutText(text: string, { isDetailed }: EntryLook): string {
  const most = isDetailed ? DETAILED_LENGTH : TEXT_LENGTH;
  const left = text.length - most;
  return left > 0 ? `${text.slice(0, most).toWellFormed()}\n\n… ${formatMany(left, "more character")}` : text;
}

function callLines(call: ToolCallBlock, { columns, isDetailed }: EntryLook): Line[] {
  const { arguments: given } = call;
  const name = fieldText(call.name);
  const values = Object.entries(given ?? {}).map(([key, value]) => [key, fieldText(value)] as const);
  if (!isDetailed) {
    const shown = values.map(([key, value]) => `${key}=${value}`).join(" ");
    return [line(span(cutLine(plainLine(`→ ${name} ${shown.slice(0, 2_000)}`), columns), "tool"))];
  }
  const body = values.flatMap(([key, value]) => [
    line(span(plainLine(`    ${key}`), "dim")),
    ...wrapLiteral(plainText(value), columns - 6).map((text) => line(`      ${text}`)),
  ]);
  return [line(span(plainLine(`→ ${name}`), "tool")), ...body];
}

function resultLines(text: string, toolName: string, isError: boolean, look: EntryLook): Line[] {
  const style: Style = isError ? "error" : "dim";
  const head = toolName ? [line(span(plainLine(`← ${toolName}${isError ? " failed" : ""}`), "tool"))] : [];
  const all = plainText(text.slice(0, DETAILED_LENGTH)).replace(/\n+$/, "").split("\n");
  const shown = look.isDetailed ? all : all.slice(0, RESULT_LINES);
  const lines = shown
    .flatMap((one) =>
      look.isDetailed
        ? wrapLiteral(one, look.columns - 2)
        : [cutLine(one.replaceAll("\t", "  "), look.columns - 2)],
    )
    .map((one) => line(span(`  ${one}`, style)));
  const left = all.length - shown.length;
  return [
    ...head,
    ...lines,
    ...(left > 0 ? [line(span(`  … ${formatMany(left, "more line")}`, "dim"))] : []),
  ];
}

/** Splits a line with terminal styles into parts; of nested styles the innermost is used. */
function styledLine(text: string): Line {
  const spans: Span[] = [];
  const open: Style[] = [];
  for (const [at, part] of text.split(/\u001b\[([\d;]*)m/).entries()) {
    if (at % 2 === 0) {
      if (part !== "") spans.push(span(part, open.at(-1) ?? "plain"));
    } else if (ENDS.has(part)) open.pop();
    else open.push(STYLES[part] ?? "plain");
  }
  return { spans };
}
