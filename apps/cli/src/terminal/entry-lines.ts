import {
  type BranchSummaryEntry,
  branchSummary,
  type CompactionEntry,
  type ContextMessage,
  compaction,
  contentBlocks,
  type Entry,
  isFailedAnswer,
  message,
  messageText,
  type ToolCallBlock,
  toolCalls,
} from "@espalier/session-tree";
import picocolors from "picocolors";
import { previewEntry } from "../entry-preview.ts";
import { wrapped } from "../markdown/markdown-look.ts";
import { renderMarkdown } from "../markdown/render-markdown.ts";
import { formatCount, formatMany, formatTime } from "../numbers.ts";
import { cutLine, fieldText, plainLine, plainText } from "../plain-text.ts";
import { EMPTY, type Line, line, type Style, span } from "./frame.ts";
import { styledLine } from "./styled-text.ts";

/** How entries are laid out for reading. */
export interface EntryLook {
  columns: number;
  /** Calls and results are shown whole, and no text is cut. */
  isDetailed: boolean;
  isColoured: boolean;
}

/** Lines of a tool's result that are shown. */
const RESULT_LINES = 4;

/** Characters of one text that are laid out; what stands behind is counted. */
const TEXT_LENGTH = 20_000;
const DETAILED_LENGTH = 1_000_000;

const HEADS = new Map(
  Object.entries<{ title: string; style: Style }>({
    user: { title: "you", style: "user" },
    assistant: { title: "model", style: "model" },
    toolResult: { title: "result", style: "tool" },
    bashExecution: { title: "shell", style: "tool" },
  }),
);

/** What holds of an entry at the leaf, and does not stand in it. */
interface EntryMarks {
  label: string | undefined;
  /** An edit keeps it from the model. */
  isHidden: boolean;
}

/**
 * An entry for reading: who speaks and when, then what is said, as markdown; behind another one, unless it is a result,
 * an empty line comes first.
 */
export function entryLines(
  entry: Entry,
  { label, isHidden }: EntryMarks,
  look: EntryLook,
  isBehind: boolean,
): Line[] {
  const name = label === undefined ? [] : [span(` [${plainLine(label)}]`, "label")];
  const hidden = isHidden ? [span("  hidden from the model", "summary")] : [];
  const facts = [entry.id, formatTime(entry.timestamp)].filter(Boolean).map(plainLine).join(" · ");
  const said = message.is(entry) ? entry.message : undefined;
  const { title, style } = (said && HEADS.get(said.role)) ?? { title: kindTitle(entry), style: "summary" };
  const heading = line(span(plainLine(title), style), ...hidden, span(`  ${facts}`, "dim"), ...name);
  const lines = [heading, ...(said ? messageLines(said, look) : restLines(entry, look))];
  return isBehind && said?.role !== "toolResult" ? [EMPTY, ...lines] : lines;
}

function kindTitle(entry: Entry): string {
  if (compaction.is(entry)) return "compaction";
  if (branchSummary.is(entry)) return "summary of a branch";
  return message.is(entry) ? entry.message.role : entry.type;
}

function restLines(entry: Entry, look: EntryLook): Line[] {
  if (compaction.is(entry)) return [compactionFacts(entry), ...summaryOf(entry, look)];
  if (branchSummary.is(entry))
    return [
      line(
        span(
          `what was learnt up to ${plainLine(fieldText(entry.fromId)) || "a place that is not named"}`,
          "dim",
        ),
      ),
      ...summaryOf(entry, look),
    ];
  return wrapped(previewEntry(entry) ?? "", look.columns).map((text) => line(text));
}

function compactionFacts({ id, tokensBefore, firstKeptEntryId, details }: CompactionEntry): Line {
  const { tokensAfter } = (details ?? {}) as { tokensAfter?: unknown };
  const after = typeof tokensAfter === "number" ? ` → ${formatCount(tokensAfter)}` : "";
  const kept =
    firstKeptEntryId === id ? "nothing before it is kept" : `keeps from ${plainLine(firstKeptEntryId)}`;
  return line(
    span(
      `${formatCount(typeof tokensBefore === "number" ? tokensBefore : 0)}${after} tokens · ${kept}`,
      "dim",
    ),
  );
}

const summaryOf = ({ summary }: CompactionEntry | BranchSummaryEntry, look: EntryLook): Line[] =>
  textLines(summary, look);

/** What a message says: text, then calls, or the beginning of a result. */
function messageLines(said: ContextMessage, look: EntryLook): Line[] {
  if (said.role === "toolResult")
    return resultLines(messageText(said), fieldText(said.toolName), said.isError === true, look);
  if (said.role === "bashExecution")
    return [
      line(span(cutLine(plainLine(`$ ${fieldText(said.command)}`), look.columns), "code")),
      ...resultLines(fieldText(said.output), "", false, look),
    ];
  const lines = textLines(messageText(said), look);
  for (const block of "content" in said ? contentBlocks(said) : []) {
    if (block.type === "image")
      lines.push(
        line(span(plainLine(`(a picture, ${fieldText(block.mimeType) || "of no known type"})`), "dim")),
      );
    const thought = block.type === "thinking" ? fieldText(block.thinking) : "";
    if (thought !== "") lines.push(...(look.isDetailed ? quoted(thought, look) : [thoughtLine(thought)]));
  }
  for (const call of toolCalls(said)) lines.push(...callLines(call, look));
  if (isFailedAnswer(said)) {
    const { stopReason, errorMessage } = said as { stopReason: string; errorMessage?: unknown };
    lines.push(line(span(plainLine(`(${stopReason}) ${fieldText(errorMessage)}`), "error")));
  }
  return lines;
}

const thoughtLine = (thought: string): Line =>
  line(span(`(thought, ${formatMany(thought.length, "character")})`, "dim"));

const quoted = (text: string, look: EntryLook): Line[] =>
  wrapped(cutText(plainText(text), look), look.columns - 2).map((one) => line(span(`│ ${one}`, "dim")));

function textLines(text: string, look: EntryLook): Line[] {
  if (text.trim() === "") return [];
  const colours = picocolors.createColors(look.isColoured);
  return renderMarkdown(cutText(text, look), { columns: look.columns, colours }).map(styledLine);
}

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
    ...wrapped(plainText(value), columns - 6).map((text) => line(`      ${text}`)),
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
        ? wrapped(one.replaceAll("\t", "  "), look.columns - 2)
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
