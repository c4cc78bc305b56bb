import type { LastAct, Session } from "@espalier/engine";
import { jsonText } from "@espalier/jsonl-stream";
import {
  type ContextMessage,
  contentBlocks,
  type Entry,
  message,
  messageText,
  toolCalls,
  withoutHeadings,
} from "@espalier/session-tree";
import { unescapeText } from "@espalier/summarizer";
import { gistOfFields, oneLine, providerError } from "@espalier/viewer/model";
import { entryName } from "./entry-reference.ts";
import { formatTime } from "./numbers.ts";
import { cutLine, cutToColumns, fieldText, plainLine, plainText } from "./text.ts";

/** Maximum length of a preview in code points. */
const LENGTH = 100;

/**
 * Returns one line of at most 100 code points without control characters; null for an entry without content. The viewer's
 * rows have icons; here the text has calls with their arguments, results with their tool, failures with their reason.
 */
export function previewEntry(entry: Entry): string | null {
  const text = message.is(entry) ? messageGist(entry.message) : gistOfFields(entry);
  return oneLine(text, LENGTH) || null;
}

/** Returns a preview of a message of the context: one line of at most 100 code points. */
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
    parts.push(`(failed: ${providerError(said.errorMessage) || "no reason given"})`);
  const words = messageText(said);
  const text = said.role === "user" ? withoutTags(words) : words;
  // Some agents record the message of an error also as the text of the answer.
  if (said.role !== "assistant" || said.errorMessage !== text) parts.push(text);
  const calls = toolCalls(said);
  for (const { name, arguments: given } of calls) parts.push(`${fieldText(name)}(${shortArguments(given)})`);
  if (text === "" && calls.length === 0) parts.push(...blockNames(said));
  if (said.role === "system") parts.push(...Object.keys(said.sections ?? {}));
  return parts.join(" ");
}

/** Elements in which Claude Code records a command or a shell line of the user, and their replacements. */
const RECORDED: readonly [RegExp, string][] = [
  [/<(command-message|local-command-caveat)>[\s\S]*?<\/\1>/g, ""],
  [/<bash-input>([\s\S]*?)<\/bash-input>/g, "! $1"],
  [
    /<(command-name|command-args|local-command-stdout|local-command-stderr|bash-stdout|bash-stderr)>([\s\S]*?)<\/\1>/g,
    "$2 ",
  ],
];

/** Returns a prompt without an agent's elements; unchanged if it does not begin with `<`, or has nothing else. */
function withoutTags(text: string): string {
  if (!text.startsWith("<")) return text;
  const words = RECORDED.reduce((rest, [element, shown]) => rest.replace(element, shown), text).trim();
  return words === "" ? text : words;
}

/** Names of blocks, and thoughts, for a message that has neither text nor calls. */
function blockNames(said: ContextMessage): string[] {
  return contentBlocks(said).flatMap((block) => {
    if (block.type === "image") return ["(image)"];
    if (block.type === "thinking") return block.thinking ? [`(thinking) ${fieldText(block.thinking)}`] : [];
    return block.type === "text" ? [] : [`(${fieldText(block.type)})`];
  });
}

/** Lists the values of a call's arguments without their names; texts are cut at 60 characters, other values at 30. */
function shortArguments(given: unknown): string {
  if (typeof given !== "object" || given === null) return "";
  const texts = Object.values(given).map((value) =>
    typeof value === "string" ? oneLine(value, 60) : cutLine(jsonText(value), 30),
  );
  return texts.join(", ");
}

/** Maximum width of a line in columns, and its width when stdout is not a terminal. */
const LINE_LENGTH = 160;

/**
 * Returns the first `most` lines of a message without empty lines and control sequences, each cut at the width; a line
 * with `…` counts the others.
 */
export function firstLines(message: ContextMessage, most: number, columns: number): string[] {
  // Empty lines are left out, since only a few lines are shown.
  const lines = allLines(message)
    .map((line) => line.replaceAll("\t", "  ").trimEnd())
    .filter((line) => line !== "");
  const length = Math.max(20, Math.min(columns, LINE_LENGTH));
  const shown = lines.slice(0, most).map((line) => cutToColumns(line, length));
  const left = lines.length - shown.length;
  if (left > 0) shown.push(`… ${left === 1 ? "1 more line" : `${left} more lines`}`);
  return shown;
}

/**
 * Returns all lines of a message with their white space: text, then calls and images; for a shell command, the command
 * and its output. Thinking is left out.
 */
export function allLines(message: ContextMessage): string[] {
  if (message.role === "bashExecution") {
    return [...splitLines(`$ ${fieldText(message.command)}`), ...splitLines(fieldText(message.output))];
  }
  const isSummary = message.role === "compactionSummary" || message.role === "branchSummary";
  const text = messageText(message);
  // An extractive summary contains tags of the conversation in escaped form: `&lt;tag>`.
  const lines = splitLines(isSummary ? unescapeText(text) : text);
  for (const { name, arguments: given } of toolCalls(message))
    lines.push(`→ ${plainLine(fieldText(name))} ${plainText(jsonText(given))}`);
  for (const block of contentBlocks(message))
    if (block.type === "image")
      lines.push(plainLine(`(an image, ${fieldText(block.mimeType) || "of unknown type"})`));
  return lines;
}

const splitLines = (text: string): string[] => (text === "" ? [] : plainText(text).split("\n"));

/** Maximum width of an entry's line in columns, and its width when stdout is not a terminal. */
export const WIDE = 120;

/** Returns one line for an entry: its id, its role or type, and a preview. */
export function entryLine(session: Session, id: string, width: number): string {
  const entry = session.getEntry(id)!;
  const role = message.is(entry) ? entry.message.role : entry.type;
  return cutToColumns(
    `${plainLine(`${entryName(session.tree, id)} ${role}`)}  ${previewEntry(entry) ?? ""}`,
    width,
  );
}

const ACT_NAMES: Readonly<Record<LastAct["kind"], string>> = {
  prompt: "the prompt",
  navigation: "the navigation",
  summary: "the navigation or merge with a summary",
  compaction: "the compaction",
  edit: "the hiding or showing of an entry",
  label: "the label",
  name: "the name",
  pin: "the pin",
};

/** Maximum width in columns of the text in an act's name. */
const ACT_WORDS = 60;

/** Names an act for people: `the prompt “What grows here?” (2026-03-08 17:16)`. */
export function actName({ kind, text, timestamp }: LastAct): string {
  const words = cutToColumns(plainLine(text), ACT_WORDS);
  const day = formatTime(timestamp);
  return `${ACT_NAMES[kind]}${words && ` “${words}”`}${day && ` (${day})`}`;
}
