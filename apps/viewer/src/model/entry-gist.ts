import { costOf, usageOf } from "@espalier/engine/reading";
import { jsonText } from "@espalier/jsonl-stream";
import {
  type ContextMessage,
  contentGist,
  cutLine,
  type Entry,
  entryFields,
  estimateTotal,
  fieldText,
  kindOf,
  message,
  messagesOf,
  messageText,
  parsedJson,
  plainLine,
  type Tree,
  textsIn,
  toolCalls,
} from "@espalier/session-tree";

/**
 * An entry as one row of the tree. Tools, failures, sizes and sums are separate fields, which the page draws as icons.
 * The command line writes them as words, so it has its own rules for lines of messages.
 */
export type EntryGist = ReturnType<typeof gistAt>;

/** Maximum number of characters of a row. */
const LENGTH = 200;

export function gistAt(tree: Tree, row: number) {
  const entry = tree.entryAt(row);
  const said = saidIn(entry);
  return {
    row,
    id: entry.id,
    /** Text of the entry: one line without control characters, at most 200 characters. */
    text: oneLine(said ? gistOfMessage(said) : gistOfFields(entry)),
    /** Names of the tools that an answer calls; for a result, the name of its tool. */
    tools: toolsOf(said),
    /** Estimated tokens of the entry for the model, characters / 4; 0 if the model reads nothing of it. */
    tokens: estimateTotal(messagesOf(entry)),
    /** US dollars that a provider billed for the entry; 0 if unknown. */
    cost: costOf(usageOf(entry)),
    timestamp: entry.timestamp,
    /** True for a result, an answer or a shell command that failed or was aborted. */
    failed: isFailed(said),
  };
}

/** Returns the message of an entry; undefined for an entry of another kind, or with an invalid message. */
export function saidIn(entry: Entry): ContextMessage | undefined {
  return message.is(entry) ? entry.message : undefined;
}

function toolsOf(said: ContextMessage | undefined): string[] {
  if (said?.role === "toolResult") return [fieldText(said.toolName)];
  return said ? toolCalls(said).map(({ name }) => fieldText(name)) : [];
}

function isFailed(said: ContextMessage | undefined): boolean {
  if (said?.role === "toolResult") return said.isError === true;
  if (said?.role === "bashExecution") return (said.exitCode ?? 0) !== 0 || said.cancelled === true;
  return said?.role === "assistant" && (said.stopReason === "error" || said.stopReason === "aborted");
}

function gistOfMessage(said: ContextMessage): string {
  if (said.role === "bashExecution") return `$ ${fieldText(said.command)}`;
  if (said.role === "assistant" && said.stopReason === "error")
    return `failed: ${providerError(said.errorMessage)}`;
  const text = messageText(said);
  if (text.trim() !== "") return text;
  const calls = toolCalls(said);
  return calls.length > 0 ? calls.map(gistOfCall).join(" · ") : contentGist(said);
}

/** Returns the text of a provider's error with the message in its JSON in place of the JSON. */
export function providerError(text: unknown): string {
  // A text that is not valid JSON only loses its quotes.
  return fieldText(text).replace(/\{.*?"message":\s*("(?:[^"\\]|\\.)*").*\}/s, (_, quoted: string) =>
    String(parsedJson(quoted) ?? quoted.slice(1, -1)),
  );
}

/**
 * Returns the first argument of a call that is text (a path, a command, a question), on one line. Without one, returns all
 * arguments as JSON; empty if they are not an object.
 */
export function gistOfCall({ arguments: given }: { arguments: unknown }): string {
  if (typeof given !== "object" || given === null) return "";
  const text = Object.values(given).find((value) => typeof value === "string" && value.trim() !== "");
  return typeof text === "string" ? oneLine(text) : oneLine(jsonText(given));
}

/** Returns the text of an entry that is not a message. An invalid entry, or one without a text, shows its fields as JSON. */
export function gistOfFields(entry: Entry): string {
  const kind = kindOf(entry);
  const drawn = kind.problem?.(entry) === undefined ? kind.draw?.(entry) : undefined;
  const fields = entryFields(entry);
  return drawn ?? (Object.keys(fields).length === 0 ? "" : jsonText(fields));
}

/** Maximum number of characters that are read, since a gist shows only the beginning. */
const LOOKED_AT = 4_000;

/** Returns one line of at most `length` code points (default: 200), without control characters. */
export function oneLine(text: string, length = LENGTH): string {
  return cutLine(plainLine(text.slice(0, LOOKED_AT)), length);
}

/**
 * Returns the whole text of an entry, including calls with the texts of their arguments; empty for an invalid entry, and
 * if the model reads nothing of it.
 */
export function textOfEntry(entry: Entry): string {
  // System messages inside a compaction are shown at their own entry.
  const said = messagesOf(entry).at(-1);
  if (!said) return "";
  const calls = toolCalls(said).flatMap((call) => [fieldText(call.name), ...textsIn(call.arguments)]);
  return [messageText(said), ...calls].join("\n");
}
