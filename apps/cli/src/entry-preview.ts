import type { Session } from "@espalier/engine";
import { jsonText } from "@espalier/jsonl-stream";
import {
  type ContextMessage,
  contentBlocks,
  type Entry,
  message,
  messageText,
  toolCalls,
} from "@espalier/session-tree";
import { unescapeText } from "@espalier/summarizer";
import { gistOfFields, oneLine, withoutHeadings } from "@espalier/viewer/model";
import { cutLine, cutToColumns, fieldText, plainLine, plainText } from "./text.ts";

/** Code points of a preview at the most. */
const LENGTH = 100;

/**
 * One-line preview of an entry without control characters; null when it says nothing. Text alone has to say what
 * the viewer's rows show as marks beside theirs: calls with what they were given, results with their tool, failures.
 */
export function previewEntry(entry: Entry): string | null {
  const text = message.is(entry) ? messageGist(entry.message) : gistOfFields(entry);
  return oneLine(text, LENGTH) || null;
}

/** One-line preview of a message of the context. */
export function previewMessage(said: ContextMessage): string {
  return oneLine(messageGist(said), LENGTH);
}

function messageGist(said: ContextMessage): string {
  if (said.role === "bashExecution") return `$ ${fieldText(said.command)}`;
  if (said.role === "compactionSummary" || said.role === "branchSummary")
    return withoutHeadings(fieldText(said.summary));
  const parts: string[] = [];
  if (said.role === "toolResult") parts.push(`${fieldText(said.toolName)}:`);
  if (said.role === "assistant" && said.stopReason === "aborted") parts.push("(aborted)");
  if (said.role === "assistant" && said.stopReason === "error")
    parts.push(`(failed: ${fieldText(said.errorMessage) || "no reason given"})`);
  const words = messageText(said);
  const text = said.role === "user" ? withoutTags(words) : words;
  parts.push(text);
  const calls = toolCalls(said);
  for (const { name, arguments: given } of calls) parts.push(`${fieldText(name)}(${shortArguments(given)})`);
  if (text === "" && calls.length === 0) parts.push(...blockNames(said));
  if (said.role === "system") parts.push(...Object.keys(said.sections ?? {}));
  return parts.join(" ");
}

/** Elements in which Claude Code records a command or a shell line of the user, and their words for a reader. */
const RECORDED: readonly [RegExp, string][] = [
  [/<(command-message|local-command-caveat)>[\s\S]*?<\/\1>/g, ""],
  [/<bash-input>([\s\S]*?)<\/bash-input>/g, "! $1"],
  [
    /<(command-name|command-args|local-command-stdout|local-command-stderr|bash-stdout|bash-stderr)>([\s\S]*?)<\/\1>/g,
    "$2 ",
  ],
];

/** The words of a prompt without the elements of an agent; all of it where nothing else is there. */
function withoutTags(text: string): string {
  if (!text.startsWith("<")) return text;
  const words = RECORDED.reduce((rest, [element, shown]) => rest.replace(element, shown), text).trim();
  return words === "" ? text : words;
}

/** Replacements for the text of a message without one. */
function blockNames(said: { content?: unknown }): string[] {
  return contentBlocks(said).flatMap((block) => {
    if (block.type === "image") return ["(picture)"];
    if (block.type === "thinking") return block.thinking ? [`(thinking) ${fieldText(block.thinking)}`] : [];
    return block.type === "text" ? [] : [`(${fieldText(block.type)})`];
  });
}

/** The values of a call's arguments, which say more than their names. */
function shortArguments(given: unknown): string {
  if (typeof given !== "object" || given === null) return "";
  const texts = Object.values(given).map((value) =>
    typeof value === "string" ? oneLine(value, 60) : cutLine(jsonText(value), 30),
  );
  return texts.join(", ");
}

/** Columns of a line where no terminal says how many there is room for. */
const LINE_LENGTH = 160;

/** The first lines of what a message says, without anything a terminal would act on; `…` replaces the rest. */
export function firstLines(message: ContextMessage, most: number, columns: number): string[] {
  // Empty lines would use up the little room there is.
  const lines = allLines(message)
    .map((line) => line.replaceAll("\t", "  ").trimEnd())
    .filter((line) => line !== "");
  const length = Math.max(20, Math.min(columns, LINE_LENGTH));
  const shown = lines.slice(0, most).map((line) => cutToColumns(line, length));
  const left = lines.length - shown.length;
  if (left > 0) shown.push(`… ${left === 1 ? "1 more line" : `${left} more lines`}`);
  return shown;
}

/** All lines of what a message says, with all their blanks: text, then calls and pictures. */
export function allLines(message: ContextMessage): string[] {
  if (message.role === "bashExecution") {
    return [...splitLines(`$ ${fieldText(message.command)}`), ...splitLines(fieldText(message.output))];
  }
  const isSummary = message.role === "compactionSummary" || message.role === "branchSummary";
  const text = messageText(message);
  // A summary without a model has tags of the conversation as text: `&lt;tag>`.
  const lines = splitLines(isSummary ? unescapeText(text) : text);
  for (const { name, arguments: given } of toolCalls(message))
    lines.push(`→ ${plainLine(fieldText(name))} ${plainText(jsonText(given))}`);
  if ("content" in message) {
    for (const block of contentBlocks(message))
      if (block.type === "image")
        lines.push(plainLine(`(a picture, ${fieldText(block.mimeType) || "of no known type"})`));
  }
  return lines;
}

const splitLines = (text: string): string[] => (text === "" ? [] : plainText(text).split("\n"));

/** Columns of an entry's line where no terminal says how many there are. */
export const WIDE = 120;

/** One line for an entry: its id, its role or type, and what it says. */
export function entryLine(session: Session, id: string, width: number): string {
  const entry = session.getEntry(id)!;
  const role = message.is(entry) ? entry.message.role : entry.type;
  return cutToColumns(`${plainLine(`${id} ${role}`)}  ${previewEntry(entry) ?? ""}`, width);
}
