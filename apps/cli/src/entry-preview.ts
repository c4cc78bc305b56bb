import { jsonText } from "@espalier/jsonl-stream";
import {
  type ContextMessage,
  contentBlocks,
  contextEdit,
  customMessage,
  type Entry,
  entryFields,
  kindOf,
  message,
  messageText,
  toolCalls,
} from "@espalier/session-tree";
import { cutLine, cutToColumns, fieldText, plainLine, plainText } from "./text.ts";

/** Code points of a preview at the most. */
const LENGTH = 100;

/** Characters of a text that are read: a preview shows its beginning. */
const LOOKED_AT = 2_000;

/**
 * One-line preview of an entry without control characters; null when it says nothing. Text alone has to say what
 * the viewer's rows show as marks beside theirs: calls with what they were given, results with their tool, failures.
 */
export function previewEntry(entry: Entry): string | null {
  const text = message.is(entry) ? messageGist(entry.message) : gistOf(entry);
  return oneLine(text) || null;
}

/** One-line preview of a message of the context. */
export function previewMessage(said: ContextMessage): string {
  return oneLine(messageGist(said));
}

function oneLine(text: string): string {
  return cutLine(plainLine(text.slice(0, LOOKED_AT)), LENGTH);
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
  const text = messageText(said);
  parts.push(text);
  const calls = toolCalls(said);
  for (const { name, arguments: given } of calls) parts.push(`${fieldText(name)}(${shortArguments(given)})`);
  if (text === "" && calls.length === 0) parts.push(...blockNames(said));
  if (said.role === "system") parts.push(...Object.keys(said.sections ?? {}));
  return parts.join(" ");
}

/** Replacements for the text of a message without one. */
function blockNames(said: { content?: unknown }): string[] {
  return contentBlocks(said).flatMap((block) => {
    if (block.type === "image") return ["(picture)"];
    return block.type === "thinking" && block.thinking ? [`(thinking) ${fieldText(block.thinking)}`] : [];
  });
}

/** The values of a call's arguments, which say more than their names. */
function shortArguments(given: unknown): string {
  if (typeof given !== "object" || given === null) return "";
  const texts = Object.values(given).map((value) =>
    typeof value === "string"
      ? cutLine(plainLine(value.slice(0, LOOKED_AT)), 60)
      : cutLine(jsonText(value), 30),
  );
  return texts.join(", ");
}

/** Kinds by what sound entries of theirs say beside the conversation; all others show their fields. */
const GISTS = new Map(
  Object.entries<(fields: Record<string, unknown>) => string>({
    compaction: ({ summary }) => withoutHeadings(fieldText(summary)),
    branch_summary: ({ summary }) => withoutHeadings(fieldText(summary)),
    model_change: ({ provider, modelId }) => `${fieldText(provider)}/${fieldText(modelId)}`,
    thinking_level_change: ({ thinkingLevel }) => fieldText(thinkingLevel),
    label: ({ targetId, label }) =>
      label ? `${fieldText(targetId)}: ${fieldText(label)}` : `${fieldText(targetId)}: no label`,
    session_info: ({ name }) => fieldText(name),
    leaf: ({ targetId }) => `to ${targetId === null ? "the start" : fieldText(targetId)}`,
    usage: ({ kind, provider, model }) => [kind, provider, model].map(fieldText).filter(Boolean).join(" "),
    custom: ({ customType, data }) => `${fieldText(customType)} ${jsonText(data)}`,
  }),
);

function gistOf(entry: Entry): string {
  if (customMessage.is(entry)) return messageText({ ...entry, role: "custom", timestamp: 0 });
  if (contextEdit.is(entry)) {
    const { targetId, replacement } = entry;
    return replacement === null
      ? `leaves out ${targetId}`
      : `${targetId} becomes ${messageGist({ role: "user", content: replacement.content, timestamp: 0 })}`;
  }
  const fields = entryFields(entry);
  const kind = kindOf(entry);
  if (kind.problem?.(entry) === undefined) {
    const drawn = kind.draw?.(entry) ?? GISTS.get(entry.type)?.(fields);
    if (drawn !== undefined) return drawn;
  }
  return Object.keys(fields).length === 0 ? "" : jsonText(fields);
}

/** Summaries begin with a heading that all of them have: what follows it says more. */
function withoutHeadings(summary: string): string {
  return summary.slice(0, LOOKED_AT).replace(/^#+ .*$/gm, "");
}

/** Columns of a line where no terminal says how many there is room for. */
const LINE_LENGTH = 160;

/** The first lines of what a message says, without anything a terminal would act on; `…` stands for the rest. */
export function firstLines(message: ContextMessage, most: number, columns: number): string[] {
  // Empty lines would use up the little room there is.
  const lines = allLines(message).filter((line) => line !== "");
  const length = Math.max(20, Math.min(columns, LINE_LENGTH));
  const shown = lines.slice(0, most).map((line) => cutToColumns(line, length));
  const left = lines.length - shown.length;
  if (left > 0) shown.push(`… ${left === 1 ? "1 more line" : `${left} more lines`}`);
  return shown;
}

/** All lines of what a message says: text, then calls and pictures. */
export function allLines(message: ContextMessage): string[] {
  if (message.role === "bashExecution") {
    return [`$ ${plainLine(fieldText(message.command))}`, ...splitLines(fieldText(message.output))];
  }
  const lines = splitLines(messageText(message));
  for (const { name, arguments: given } of toolCalls(message))
    lines.push(plainLine(`→ ${fieldText(name)} ${jsonText(given)}`));
  if ("content" in message) {
    for (const block of contentBlocks(message))
      if (block.type === "image")
        lines.push(plainLine(`(a picture, ${fieldText(block.mimeType) || "of no known type"})`));
  }
  return lines;
}

function splitLines(text: string): string[] {
  if (text === "") return [];
  return plainText(text)
    .split("\n")
    .map((line) => line.replaceAll("\t", "  ").trimEnd());
}
