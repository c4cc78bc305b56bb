import { type ContentBlock, contentBlocks, isRecord, type UserContent } from "@espalier/session-tree";
import type { FormatIssues } from "../formats/conversation.ts";
import { readArguments, readItemCall, readItemContent, reasoningText } from "../formats/openai.ts";
import { type EntryBody, shortName } from "../import/entry.ts";
import { itemText, kindOfRollout, type RolloutLine, textOf } from "./rollout.ts";

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
  const isText = blocks.length === 1 && only?.type === "text" && !("native" in only);
  return isText ? only.text : (blocks as UserContent);
}

/**
 * Reads a tool call. A call of a tool that the provider runs is stored unchanged: no other provider can read it, and it
 * has no result.
 */
export function readCall(item: Fields, { provider, issues }: Reading): ContentBlock {
  const { type, action, arguments: given } = item;
  const id = item["call_id"] ?? (type === "local_shell_call" ? item["id"] : undefined);
  if (typeof id === "string" && type === "local_shell_call")
    return { type: "toolCall", id, name: "local_shell", arguments: isRecord(action) ? action : {} };
  if (typeof id === "string" && type === "tool_search_call") {
    const input = isRecord(given) ? given : readArguments(given, "", issues);
    return { type: "toolCall", id, name: "tool_search", arguments: input };
  }
  return readItemCall(item, "", issues) ?? issues.opaque("openai-responses", item, "", provider);
}

/** Returns the entry for the result of a tool call. */
export function resultBody(item: Fields, toolName: string, timestamp: number, reading: Reading): EntryBody {
  const { call_id: toolCallId, tools } = item;
  const output = item["output"] ?? tools;
  const { content, success } = isRecord(output) ? output : { content: output, success: undefined };
  const isReadable = typeof content === "string" || (Array.isArray(content) && content.every(isPart));
  const said = isReadable ? content : JSON.stringify(output ?? "");
  return {
    type: "message",
    message: {
      role: "toolResult",
      toolCallId,
      toolName,
      content: contentBlocks({ content: readSaid(said, reading) }),
      isError: success === false,
      timestamp,
    },
  };
}

const isPart = (part: unknown): boolean => isRecord(part) && /^(input|output)_/.test(String(part["type"]));

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

/** Returns the settings after a turn, or after an event with new settings. */
export function readSettings(payload: Fields, before: CodexSettings): CodexSettings {
  const fields = isRecord(payload["thread_settings"]) ? payload["thread_settings"] : payload;
  const mode = isRecord(fields["collaboration_mode"]) ? fields["collaboration_mode"]["settings"] : {};
  const inMode = isRecord(mode) ? mode["reasoning_effort"] : undefined;
  return {
    provider: textOf(fields["model_provider_id"]) ?? before.provider,
    model: textOf(fields["model"]) ?? before.model,
    thinkingLevel:
      textOf(fields["effort"]) ??
      textOf(fields["reasoning_effort"]) ??
      textOf(inMode) ??
      before.thinkingLevel,
  };
}

/** Fields of a turn's settings that only name the turn. */
const NAMES_OF_TURN = new Set(["turn_id", "root_turn_id", "parent_turn_id", "trace_id"]);

/** Returns the settings of a turn for a comparison with the previous turn. */
export const turnSettings = (payload: Fields): Fields =>
  Object.fromEntries(Object.entries(payload).filter(([field]) => !NAMES_OF_TURN.has(field)));

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

/** Returns the kind of a text that the agent added, by its beginning; undefined for any other text. */
export const injectedBy = (text: string): string | undefined =>
  INJECTED.find(([beginning]) => text.trimStart().startsWith(beginning))?.[1];

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
  const { content, internal_chat_message_metadata_passthrough: passed } = payload;
  const kinds = isRecord(passed) ? passed["content_item_kinds"] : undefined;
  if (!Array.isArray(kinds) || kinds.length === 0 || !Array.isArray(content)) {
    const text = itemText(payload);
    const isPrompt = next && kindOfRollout(next) === USER_MESSAGE && next.payload["message"] === text;
    return [{ injected: isPrompt ? undefined : injectedBy(text), content }];
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

/** Event with the text of the user's prompt. */
const USER_MESSAGE = "event_msg/user_message";

function injectedKind(kind: unknown, part: unknown): string | undefined {
  if (typeof kind !== "string" || kind === "unknown") return injectedBy(itemText({ content: [part] }));
  return kind.startsWith("user.") ? undefined : shortName(kind);
}
