import { isRecord } from "@espalier/session-tree";
import { itemText } from "./rollout.ts";
import type { Said } from "./thread-history.ts";

type Fields = Record<string, unknown>;

/** What a compaction puts in place of everything before it. */
interface Compacted {
  /** What the model reads of the past; undefined where only its provider can read it. */
  summary: string | undefined;
  /** The items that stay, the summary aside; undefined for the first files, where it is what the user said. */
  items: Fields[] | undefined;
  /** Items that only their provider can read. */
  opaque: Fields[];
}

const OPAQUE = new Set(["compaction", "compaction_summary", "context_compaction"]);

/** How much of a message goes into a summary that is put together here, in characters. */
const EXCERPT = 2_000;

/** How many messages go into it at most: the first one, and the newest. */
const EXCERPTS = 40;

export function readCompacted({ message, replacement_history: history }: Fields): Compacted {
  const summary = typeof message === "string" && message.trim() !== "" ? message : undefined;
  if (!Array.isArray(history)) return { summary, items: undefined, opaque: [] };
  const records = history.filter(isRecord);
  return {
    summary,
    items: records.filter((item) => !OPAQUE.has(String(item["type"])) && !isSummary(item, summary)),
    opaque: records.filter((item) => OPAQUE.has(String(item["type"]))),
  };
}

function isSummary(item: Fields, summary: string | undefined): boolean {
  return (
    item["type"] === "message" &&
    item["role"] === "user" &&
    summary !== undefined &&
    itemText(item) === summary
  );
}

/** The id of the first entry that stays, when what stays is the end of what was said; else undefined. */
export function keptTail(items: readonly Fields[], said: readonly Said[]): string | undefined {
  if (items.length === 0 || items.length > said.length) return undefined;
  const tail = said.slice(-items.length);
  const isSame = tail.every(
    ({ role, text }, at) => role === items[at]!["role"] && text === itemText(items[at]!),
  );
  return isSame ? tail[0]!.id : undefined;
}

/**
 * A readable summary for one that only its provider can read: what the file keeps of the messages beside it, else what
 * the user said before it, else nothing but that.
 */
export function excerptSummary({ retained_context: retained }: Fields, said: readonly Said[]): string {
  const kept = isRecord(retained) ? retainedMessages(retained) : [];
  const messages = kept.length > 0 ? kept : said.map(({ role, text }) => ({ role, text }));
  const chosen = messages.length > EXCERPTS ? [messages[0]!, ...messages.slice(1 - EXCERPTS)] : messages;
  const lines = chosen.map(
    ({ role, text }) => `- ${role === "user" ? "User" : "Assistant"}: ${excerpt(text)}`,
  );
  const heading =
    "The summary of the conversation before this point can only be read by the provider that made it. What was said, in excerpts:";
  return lines.length > 0 ? `${heading}\n\n${lines.join("\n")}` : `${heading}\n\n(nothing is at hand)`;
}

function retainedMessages(retained: Fields): { role: string; text: string }[] {
  const list = (field: string, role: string) => {
    const messages = retained[field];
    return (Array.isArray(messages) ? messages : []).filter(isRecord).map(({ text, order }) => ({
      role,
      text: typeof text === "string" ? text : "",
      order: typeof order === "number" ? order : 0,
    }));
  };
  return [...list("user_messages", "user"), ...list("assistant_messages", "assistant")].sort(
    (a, b) => a.order - b.order,
  );
}

/** What a cut leaves of a character that takes two units. */
const HALF_CHARACTER = /[\uD800-\uDBFF]$/;

function excerpt(text: string): string {
  const flat = text.trim().replace(/\s*\n\s*/g, "\n  ");
  return flat.length <= EXCERPT ? flat : `${flat.slice(0, EXCERPT).replace(HALF_CHARACTER, "")} […]`;
}

/** What else a compaction says, without the messages that stand in the conversation anyway. */
export function compactionDetails(
  { message: _message, replacement_history: _history, ...rest }: Fields,
  opaque: Fields[],
) {
  const { replacement_history_metadata: _metadata, retained_context: _context, ...details } = rest;
  return opaque.length > 0 ? { ...details, opaque } : details;
}
