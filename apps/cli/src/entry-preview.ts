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
import { cutLine, plainLine } from "./plain-text.ts";

/** Code points of a preview at the most. */
const LENGTH = 100;

/** How much of a text is looked at: what a preview shows stands at its beginning. */
const LOOKED_AT = 2_000;

/**
 * What an entry is about, on one line without control characters; null when it says nothing. Text alone has to say what
 * the viewer's rows show as marks beside theirs: calls with what they were given, results with their tool, failures.
 */
export function previewEntry(entry: Entry): string | null {
  const text = message.is(entry) && entry.message ? messageGist(entry.message) : gistOf(entry);
  return oneLine(text) || null;
}

/** What a message of the context is about, in the same way. */
export function previewMessage(said: ContextMessage): string {
  return oneLine(messageGist(said));
}

function oneLine(text: string): string {
  return cutLine(plainLine(text.slice(0, LOOKED_AT)), LENGTH);
}

function messageGist(said: ContextMessage): string {
  if (said.role === "bashExecution") return `$ ${String(said.command ?? "")}`;
  if (said.role === "compactionSummary" || said.role === "branchSummary")
    return withoutHeadings(String(said.summary ?? ""));
  const parts: string[] = [];
  if (said.role === "toolResult") parts.push(`${String(said.toolName ?? "")}:`);
  if (said.role === "assistant" && said.stopReason === "aborted") parts.push("(aborted)");
  if (said.role === "assistant" && said.stopReason === "error")
    parts.push(`(failed: ${String(said.errorMessage ?? "no reason given")})`);
  const text = messageText(said);
  parts.push(text);
  const calls = toolCalls(said);
  for (const { name, arguments: given } of calls) parts.push(`${name}(${shortArguments(given)})`);
  if (text === "" && calls.length === 0) parts.push(...blockNames(said));
  if (said.role === "system") parts.push(...Object.keys(said.sections ?? {}));
  return parts.join(" ");
}

/** What stands in for text where a message has none. */
function blockNames(said: { content?: unknown }): string[] {
  return contentBlocks(said).flatMap((block) => {
    if (block.type === "image") return ["(picture)"];
    return block.type === "thinking" && block.thinking ? [`(thinking) ${block.thinking}`] : [];
  });
}

/** The values of a call's arguments, which say more than their names. */
function shortArguments(given: unknown): string {
  if (typeof given !== "object" || given === null) return "";
  const texts = Object.values(given).map((value) =>
    typeof value === "string"
      ? cutLine(plainLine(value.slice(0, LOOKED_AT)), 60)
      : cutLine(JSON.stringify(value) ?? "", 30),
  );
  return texts.join(", ");
}

/** Kinds by what they say beside the conversation; an unknown one shows its fields. */
const GISTS: Record<string, (fields: Record<string, unknown>) => string> = {
  compaction: ({ summary }) => withoutHeadings(String(summary ?? "")),
  branch_summary: ({ summary }) => withoutHeadings(String(summary ?? "")),
  model_change: ({ provider, modelId }) => `${String(provider)}/${String(modelId)}`,
  thinking_level_change: ({ thinkingLevel }) => String(thinkingLevel),
  label: ({ targetId, label }) =>
    label ? `${String(targetId)}: ${String(label)}` : `${String(targetId)}: no label`,
  session_info: ({ name }) => String(name ?? ""),
  leaf: ({ targetId }) => `to ${targetId === null ? "the start" : String(targetId)}`,
  usage: ({ kind, provider, model }) => [kind, provider, model].filter(Boolean).map(String).join(" "),
  custom: ({ customType, data }) => `${String(customType)} ${data === undefined ? "" : JSON.stringify(data)}`,
};

function gistOf(entry: Entry): string {
  if (customMessage.is(entry)) return messageText({ ...entry, role: "custom", timestamp: 0 });
  if (contextEdit.is(entry)) {
    const { targetId, replacement } = entry;
    return replacement === null
      ? `leaves out ${targetId}`
      : `${targetId} becomes ${messageGist({ role: "user", content: replacement.content, timestamp: 0 })}`;
  }
  const fields = entryFields(entry);
  const drawn = kindOf(entry).draw?.(entry);
  if (drawn !== undefined) return drawn;
  const gist = GISTS[entry.type];
  if (gist) return gist(fields);
  return Object.keys(fields).length === 0 ? "" : JSON.stringify(fields);
}

/** Summaries begin with a heading that all of them have: what follows it says more. */
function withoutHeadings(summary: string): string {
  return summary.slice(0, LOOKED_AT).replace(/^#+ .*$/gm, "");
}
