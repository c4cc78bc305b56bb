import { isRecord } from "@espalier/session-tree";
import { countIn, listOf } from "../formats/conversation.ts";
import { itemText, textOf } from "./rollout.ts";

type Fields = Record<string, unknown>;

const OPAQUE: ReadonlySet<unknown> = new Set(["compaction", "compaction_summary", "context_compaction"]);

/** Returns whether an item of a compaction is only readable by its provider. */
export const isOpaqueItem = (item: unknown): item is Fields => isRecord(item) && OPAQUE.has(item["type"]);

/** Content that a compaction puts in place of everything before it. */
interface Compacted {
  /** The summary; undefined when only its provider can read it. */
  summary: string | undefined;
  /** Kept items without the summary; undefined for the first versions, in which they are the user's messages. */
  items: Fields[] | undefined;
  /** Items that only their provider can read. */
  opaque: Fields[];
}

export function readCompacted({ message, replacement_history: history }: Fields): Compacted {
  const summary = typeof message === "string" && message.trim() !== "" ? message : undefined;
  if (!Array.isArray(history)) return { summary, items: undefined, opaque: [] };
  const records = history.filter(isRecord);
  return {
    summary,
    items: records.filter((item) => !isOpaqueItem(item) && itemText(item) !== summary),
    opaque: records.filter(isOpaqueItem),
  };
}

/** A message on the path, as a compaction names it. */
export interface Said {
  id: string;
  /** Keys that identify the message among others, one for each item that a model reads. */
  keys: readonly string[];
  /** Position among all written entries. */
  position: number;
}

/** A prompt of the user, on the path. */
export interface Prompt extends Pick<Said, "position"> {
  text: string;
  /** Number of characters of the prompts up to the end of this one. */
  end: number;
}

/**
 * Returns the keys of an item: the text of a message, the id of a call. Reasoning has none, because its text may be
 * encrypted.
 */
export function itemKeys(item: Fields): string[] {
  const { type, role, call_id, content } = item;
  const name = String(type);
  if (name === "reasoning") return [];
  if (typeof call_id === "string") return [`${name.endsWith("_output") ? "result" : "call"} ${call_id}`];
  if (name === "message" && role === "assistant" && Array.isArray(content))
    return content.map((part) => `assistant ${itemText({ content: [part] })}`);
  return [`${name === "message" ? String(role) : "agent"} ${itemText(item)}`];
}

/**
 * Returns the number of last messages that equal the kept items; 0 when the kept items are not the end of the
 * conversation.
 */
export function keptTail(items: readonly Fields[], said: readonly Said[]): number {
  const wanted = items.flatMap(itemKeys);
  let left = wanted.length;
  for (let at = said.length - 1; at >= 0 && left > 0; at--) {
    const { keys } = said[at]!;
    left -= keys.length;
    if (left < 0 || keys.some((key, nth) => key !== wanted[left + nth])) return 0;
    if (left === 0) return said.length - at;
  }
  return 0;
}

/** Maximum number of characters of a message in a summary by excerpts. */
const EXCERPT = 2_000;

/** Maximum number of messages in a summary by excerpts: the first one, and the newest. */
const EXCERPTS = 40;

/**
 * Makes a readable summary to replace one that only its provider can read: from the messages that the compaction keeps,
 * else from the user's messages before it.
 */
export function excerptSummary({ retained_context: retained }: Fields, prompts: readonly Prompt[]): string {
  const kept = SPEAKERS.flatMap(([field, speaker]) =>
    listOf(isRecord(retained) ? retained[field] : undefined)
      .filter(isRecord)
      .map((message) => ({
        speaker,
        text: textOf(message["text"]) ?? "",
        order: countIn(message, "order"),
      })),
  ).sort((a, b) => a.order - b.order);
  const said = kept.length > 0 ? kept : prompts.map(({ text }) => ({ speaker: "User", text }));
  const chosen = said.length > EXCERPTS ? [said[0]!, ...said.slice(1 - EXCERPTS)] : said;
  const lines = chosen.map(({ speaker, text }) => `- ${speaker}: ${excerpt(text)}`);
  return `${UNREADABLE}\n\n${lines.length > 0 ? lines.join("\n") : "(nothing is at hand)"}`;
}

const SPEAKERS = [
  ["user_messages", "User"],
  ["assistant_messages", "Assistant"],
] as const;

const UNREADABLE =
  "The summary of the conversation before this point can only be read by the provider that made it. What was said, in excerpts:";

/** Lone surrogate at the end of a cut text: the first half of a pair. */
const LONE_SURROGATE = /[\uD800-\uDBFF]$/;

function excerpt(text: string): string {
  const flat = text.trim().replace(/\s*\n\s*/g, "\n  ");
  return flat.length > EXCERPT ? `${flat.slice(0, EXCERPT).replace(LONE_SURROGATE, "")} […]` : flat;
}

/** Returns the other fields of a compaction, without messages of the conversation, and with the items `opaque`. */
export function compactionDetails(payload: Fields, opaque: Fields[]): Fields {
  const details = Object.entries(payload).filter(([field]) => !OF_CONVERSATION.has(field));
  return { ...Object.fromEntries(details), ...(opaque.length > 0 ? { opaque } : {}) };
}

const OF_CONVERSATION = new Set(
  "message replacement_history replacement_history_metadata retained_context".split(" "),
);
