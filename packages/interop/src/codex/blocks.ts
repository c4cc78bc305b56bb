import {
  type ContentBlock,
  contentBlocks,
  isRecord,
  type Usage,
  type UserContent,
} from "@espalier/session-tree";
import type { FormatIssues } from "../formats/conversation.ts";
import { readArguments, readItemCall, readItemContent, reasoningText } from "../formats/openai.ts";
import type { KnownEntry } from "../import/draft.ts";
import { type EntryBody, idFromText, type SourceTime, shortName } from "../import/entry.ts";
import { itemText, type RolloutLine, textOf } from "./rollout.ts";

type Fields = Record<string, unknown>;

/** Provider and issues of the line that is being read. */
export interface Reading {
  provider: string;
  issues: FormatIssues;
}

/** Reads the content of a message; returns a string when it is only text. */
export function readSaid(content: unknown, { provider, issues }: Reading): UserContent {
  const blocks = readItemContent(content ?? [], "", issues, provider);
  const [only] = blocks;
  if (blocks.length === 1 && only?.type === "text" && Object.keys(only).length === 2) return only.text;
  return blocks as UserContent;
}

/**
 * Reads a tool call. A call of a tool that the provider runs is stored unchanged: no other provider can read it, and it
 * has no result.
 */
export function readCall(item: Fields, { provider, issues }: Reading): ContentBlock {
  const call = readItemCall(item, "", issues);
  if (call) return call;
  const { type, call_id, arguments: given, action } = item;
  const id = call_id ?? (type === "local_shell_call" ? item["id"] : undefined);
  if (typeof id === "string" && type === "local_shell_call")
    return { type: "toolCall", id, name: "local_shell", arguments: isRecord(action) ? action : {} };
  if (typeof id === "string" && type === "tool_search_call") {
    const input = isRecord(given) ? given : readArguments(given, "", issues);
    return { type: "toolCall", id, name: "tool_search", arguments: input };
  }
  return issues.opaque("openai-responses", item, "", provider);
}

/** Returns the entry for the result of a tool call. */
export function resultBody(item: Fields, toolName: string, timestamp: number, reading: Reading): EntryBody {
  const { call_id, output, tools } = item;
  const { content, success } = isRecord(output) ? output : { content: output ?? tools, success: undefined };
  const isPlain = typeof content === "string" || (Array.isArray(content) && content.every(isPart));
  const said = isPlain
    ? readSaid(content, reading)
    : JSON.stringify(isRecord(output) ? output : (content ?? ""));
  return {
    type: "message",
    message: {
      role: "toolResult",
      toolCallId: typeof call_id === "string" ? call_id : "",
      toolName,
      content: contentBlocks({ content: said }),
      isError: success === false,
      timestamp,
    },
  };
}

const isPart = (part: unknown): boolean => isRecord(part) && /^(input|output)_/.test(String(part["type"]));

/** Items of one answer, collected until another item follows. */
export class OpenAnswer {
  readonly time: SourceTime;
  readonly #id: string;
  readonly #known: KnownEntry | undefined;
  readonly #content: ContentBlock[] = [];
  readonly #encrypted: Record<string, unknown>[] = [];
  #lines = 0;

  /** @param known entry of an earlier import */
  constructor(id: string, time: SourceTime, known: KnownEntry | undefined) {
    this.#id = id;
    this.time = time;
    this.#known = known;
  }

  /** True when the answer is already in the session: no further line belongs to it. */
  get isComplete(): boolean {
    return this.#lines === this.#known?.lines;
  }

  /** True when the answer is in the session without its usage: an earlier import ended before the usage. */
  get lacksBill(): boolean {
    return this.isComplete && this.#known?.isBilled === false;
  }

  /** Id of the entry. An answer that another branch continued is a separate entry. */
  get entryId(): string {
    return (this.#known?.lines ?? 0) > this.#lines
      ? idFromText(`${this.#id}/first/${this.#lines}`)
      : this.#id;
  }

  /** Adds the blocks of one line; only its provider can read `encrypted`. */
  add(blocks: readonly ContentBlock[], encrypted?: Record<string, unknown>): void {
    this.#lines++;
    for (const block of blocks) this.#content.push(block);
    if (encrypted) this.#encrypted.push(encrypted);
  }

  /** Returns id and tool name of each call in the answer. */
  calls(): [id: string, name: string][] {
    return this.#content.flatMap((block): [string, string][] =>
      block.type === "toolCall" ? [[block.id, block.name]] : [],
    );
  }

  /** Returns the keys of the answer's texts and calls, as {@link itemKeys} makes them. */
  keys(): string[] {
    return this.#content.flatMap((block) =>
      block.type === "text"
        ? [`assistant ${block.text}`]
        : block.type === "toolCall"
          ? [`call ${block.id}`]
          : [],
    );
  }

  body({ provider, model }: CodexSettings, usage: Usage | undefined): EntryBody {
    return {
      type: "message",
      message: {
        role: "assistant",
        content: this.#content,
        api: "openai-responses",
        provider,
        model: model ?? "unknown",
        ...(usage ? { usage } : {}),
        stopReason: this.calls().length > 0 ? "toolUse" : "stop",
        timestamp: this.time.ms,
      },
      ...(this.#lines > 1 ? { sourceLines: this.#lines } : {}),
      // In the details and not in the message, where requests to another provider would include it.
      ...(this.#encrypted.length > 0 ? { details: { provider, encryptedReasoning: this.#encrypted } } : {}),
    };
  }
}

/** Returns the readable part of a reasoning item, and the part that only its provider can read; undefined without one. */
export function readReasoning(item: Fields): [ContentBlock[], Fields | undefined] {
  const { id, encrypted_content } = item;
  const thinking = reasoningText(item);
  const isEncrypted = typeof encrypted_content === "string" && encrypted_content !== "";
  return [
    thinking === "" ? [] : [{ type: "thinking", thinking }],
    isEncrypted ? { ...(typeof id === "string" ? { id } : {}), encrypted_content } : undefined,
  ];
}

/** Current settings of a thread. */
export interface CodexSettings {
  provider: string;
  model: string | undefined;
  thinkingLevel: string;
}

export const NO_CODEX_SETTINGS: CodexSettings = {
  provider: "openai",
  model: undefined,
  thinkingLevel: "off",
};

/** Returns the settings after a line: those of a turn, of an event with new settings, or of a header. */
export function readSettings(type: string, payload: Fields, before: CodexSettings): CodexSettings {
  if (type === "session_meta")
    return { ...before, provider: textOf(payload["model_provider"]) ?? before.provider };
  const fields = isRecord(payload["thread_settings"]) ? payload["thread_settings"] : payload;
  const mode = isRecord(fields["collaboration_mode"]) ? fields["collaboration_mode"] : {};
  const inMode = isRecord(mode["settings"]) ? mode["settings"] : {};
  const effort = [fields["effort"], fields["reasoning_effort"], inMode["reasoning_effort"]].map(textOf);
  return {
    provider: textOf(fields["model_provider_id"]) ?? before.provider,
    model: textOf(fields["model"]) ?? before.model,
    thinkingLevel: effort.find((level) => level !== undefined) ?? before.thinkingLevel,
  };
}

/** Returns entries for the changes of settings, each with a name. */
export function settingsBodies(
  before: CodexSettings,
  after: CodexSettings,
): [name: string, body: EntryBody][] {
  const { provider, model, thinkingLevel } = after;
  const bodies: [string, EntryBody][] = [];
  if (model !== undefined && (model !== before.model || provider !== before.provider))
    bodies.push(["model", { type: "model_change", provider, modelId: model }]);
  if (thinkingLevel !== before.thinkingLevel)
    bodies.push(["thinking", { type: "thinking_level_change", thinkingLevel }]);
  return bodies;
}

/** Fields of a turn's settings that only name the turn. */
const NAMES_OF_TURN = new Set(["turn_id", "root_turn_id", "parent_turn_id", "trace_id"]);

/** Returns the settings of a turn for a comparison with the previous turn. */
export function turnSettings(payload: Fields): Fields {
  return Object.fromEntries(Object.entries(payload).filter(([field]) => !NAMES_OF_TURN.has(field)));
}

/** Content that a compaction puts in place of everything before it. */
interface Compacted {
  /** The summary; undefined when only its provider can read it. */
  summary: string | undefined;
  /** Kept items without the summary; undefined for the first versions, in which they are the user's messages. */
  items: Fields[] | undefined;
  /** Items that only their provider can read. */
  opaque: Fields[];
}

const OPAQUE: ReadonlySet<unknown> = new Set(["compaction", "compaction_summary", "context_compaction"]);

/** Returns whether an item of a compaction is only readable by its provider. */
export const isOpaqueItem = (item: unknown): item is Fields => isRecord(item) && OPAQUE.has(item["type"]);

/** Maximum number of characters of a message in a summary by excerpts. */
const EXCERPT = 2_000;

/** Maximum number of messages in a summary by excerpts: the first one, and the newest. */
const EXCERPTS = 40;

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
}

/**
 * Returns the keys of an item: the text of a message, the id of a call. Reasoning has none, because its text may be
 * encrypted.
 */
function itemKeys(item: Fields): string[] {
  const { type, role, content, call_id } = item;
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

/**
 * Makes a readable summary to replace one that only its provider can read: from the messages that the compaction keeps,
 * else from the user's messages before it.
 */
export function excerptSummary({ retained_context: retained }: Fields, prompts: readonly Prompt[]): string {
  const kept = isRecord(retained) ? retainedMessages(retained) : [];
  const messages = kept.length > 0 ? kept : prompts.map(({ text }) => ({ role: "user", text }));
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

/** Lone surrogate at the end of a cut text: the first half of a pair. */
const LONE_SURROGATE = /[\uD800-\uDBFF]$/;

function excerpt(text: string): string {
  const flat = text.trim().replace(/\s*\n\s*/g, "\n  ");
  return flat.length <= EXCERPT ? flat : `${flat.slice(0, EXCERPT).replace(LONE_SURROGATE, "")} […]`;
}

/** Returns the other fields of a compaction, without messages of the conversation, and with the items `opaque`. */
export function compactionDetails(
  { message: _message, replacement_history: _history, ...rest }: Fields,
  opaque: Fields[],
) {
  const { replacement_history_metadata: _metadata, retained_context: _context, ...details } = rest;
  return opaque.length > 0 ? { ...details, opaque } : details;
}

/** Beginnings of the agent's own messages in the user's role; old files have no other mark for them. */
const INJECTED: readonly [beginning: string, name: string][] = [
  ["<environment_context>", "environment_context"],
  ["# AGENTS.md instructions", "agents_md"],
  ["<user_instructions>", "user_instructions"],
  ["<permissions instructions>", "permissions"],
  ["<skills_instructions>", "skills"],
  ["<turn_aborted>", "turn_aborted"],
  ["<user_shell_command>", "user_shell_command"],
  ["<subagent_notification>", "subagent_notification"],
];

/** A part of a user message: text of the user, or named text of the agent. */
interface UserPart {
  /** Name of the agent's text; undefined for text of the user. */
  injected: string | undefined;
  content: unknown;
}

/**
 * Splits a message of the user's role into text of the user and text of the agent. New files name the kind of each
 * part. In old files, text of the agent is recognized by its beginning, unless the event with the user's prompt repeats
 * it.
 *
 * @param next the following line
 */
export function userParts({ payload }: RolloutLine, next: RolloutLine | undefined): UserPart[] {
  const { content } = payload;
  const kinds = partKinds(payload);
  if (!kinds || !Array.isArray(content)) {
    const text = itemText(payload);
    return [{ injected: isPrompt(next, text) ? undefined : injectedBy(text), content }];
  }
  const parts: { injected: string | undefined; content: unknown[] }[] = [];
  for (const [at, part] of content.entries()) {
    const injected = injectedKind(kinds[at], part);
    const last = parts.at(-1);
    if (last && last.injected === injected) last.content.push(part);
    else parts.push({ injected, content: [part] });
  }
  return parts;
}

/** Returns the kind of a text that the agent added, by its beginning; undefined for any other text. */
export function injectedBy(text: string): string | undefined {
  const start = text.trimStart();
  return INJECTED.find(([beginning]) => start.startsWith(beginning))?.[1];
}

function partKinds(payload: Record<string, unknown>): unknown[] | undefined {
  const passed = payload["internal_chat_message_metadata_passthrough"];
  const kinds = isRecord(passed) ? passed["content_item_kinds"] : undefined;
  return Array.isArray(kinds) && kinds.length > 0 ? kinds : undefined;
}

function injectedKind(kind: unknown, part: unknown): string | undefined {
  if (typeof kind === "string" && kind.startsWith("user.")) return undefined;
  if (typeof kind !== "string" || kind === "unknown") return injectedBy(itemText({ content: [part] }));
  return shortName(kind);
}

function isPrompt(next: RolloutLine | undefined, text: string): boolean {
  return (
    next?.type === "event_msg" && next.payload["type"] === "user_message" && next.payload["message"] === text
  );
}
