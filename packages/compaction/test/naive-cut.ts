import type { Entry } from "@espalier/session-tree";

/**
 * The rule of the cut written down once more, as slowly and plainly as it reads, sharing nothing with the package:
 * every question is answered by looking at all entries.
 */
export function naiveCut(entries: readonly Entry[], keepRecentTokens: number) {
  const messages = entries.map((_, at) => messageAt(entries, at));
  const tokens = messages.map((message) => Math.ceil(charsOf(message) / 4));
  let reached = -1;
  for (let from = entries.length - 1; from >= 0 && reached < 0; from--) {
    const sum = tokens.slice(from).reduce((total, size) => total + size, 0);
    if (sum >= keepRecentTokens && sum > 0) reached = from;
  }
  const all = { firstKeptIndex: 0, turnStartIndex: -1, isSplitTurn: false };
  if (reached < 0) return all;
  const places = entries.map((_, at) => at);
  const isLegalAt = (at: number) => isLegal(messages, at);
  const cut =
    places.find((at) => at >= reached && isLegalAt(at)) ??
    places.findLast((at) => at < reached && isLegalAt(at));
  if (cut === undefined) return all;
  let firstKeptIndex = cut;
  while (firstKeptIndex > 0 && isSilent(entries[firstKeptIndex - 1]!)) firstKeptIndex--;
  let turnStartIndex = -1;
  if (!beginsTurn(messages[cut]))
    for (let at = 0; at < cut; at++) if (beginsTurn(messages[at])) turnStartIndex = at;
  return { firstKeptIndex, turnStartIndex, isSplitTurn: turnStartIndex >= 0 };
}

type Message = {
  role: string;
  content?: unknown;
  command?: string;
  output?: string;
  excludeFromContext?: boolean;
  toolCallId?: string;
};
type Block = {
  type: string;
  text?: string;
  thinking?: string;
  id?: string;
  name?: string;
  arguments?: unknown;
};

/** The message of an entry as the newest edit leaves it; undefined where it says nothing. */
function messageAt(entries: readonly Entry[], at: number): Message | undefined {
  const entry = entries[at] as Entry & Record<string, unknown>;
  let message: Message | undefined;
  if (entry.type === "message") message = entry["message"] as Message;
  if (entry.type === "custom_message") message = { role: "custom", content: entry["content"] };
  if (entry.type === "branch_summary") message = { role: "branchSummary", content: entry["summary"] };
  if (!message) return undefined;
  const edits = (entries.slice(at + 1) as (Entry & Record<string, unknown>)[]).filter(
    (later) => later.type === "context_edit" && later["targetId"] === entry.id,
  );
  // Only the newest edit counts: one with a content brings an entry back that an earlier one left out.
  const newest = edits.at(-1);
  if (newest) {
    const replacement = newest["replacement"] as { content: unknown } | null;
    message = replacement === null ? undefined : { ...message, ...replacement };
  }
  return message;
}

function charsOf(message: Message | undefined): number {
  if (!message) return 0;
  if (message.role === "bashExecution")
    return message.excludeFromContext ? 0 : `${message.command}${message.output}`.length;
  if (typeof message.content === "string") return message.content.length;
  let chars = 0;
  for (const block of message.content as Block[]) {
    if (block.type === "text") chars += block.text!.length;
    if (block.type === "thinking") chars += block.thinking!.length;
    if (block.type === "image") chars += 4_800;
    if (block.type === "toolCall") chars += block.name!.length + JSON.stringify(block.arguments).length;
  }
  return chars;
}

const FIRST = ["user", "assistant", "bashExecution", "custom", "branchSummary"];

function isLegal(messages: readonly (Message | undefined)[], at: number): boolean {
  const message = messages[at];
  if (!message || !FIRST.includes(message.role) || message.excludeFromContext) return false;
  for (const caller of messages.slice(0, at)) {
    const calls = caller?.role === "assistant" ? (caller.content as Block[]) : [];
    for (const { type, id } of calls) {
      const isAnswered = messages
        .slice(at)
        .some((later) => later?.role === "toolResult" && later.toolCallId === id);
      if (type === "toolCall" && isAnswered) return false;
    }
  }
  return true;
}

function beginsTurn(message: Message | undefined): boolean {
  const canBeFirst = !!message && FIRST.includes(message.role) && message.excludeFromContext !== true;
  return canBeFirst && message.role !== "assistant";
}

/** Kinds that say nothing to the model, and shell runs that were kept from it. */
function isSilent(entry: Entry): boolean {
  if (entry.type === "message")
    return (entry as unknown as { message: Message }).message.excludeFromContext === true;
  return !["custom_message", "branch_summary", "context_edit", "compaction"].includes(entry.type);
}
