import { isRecord } from "@espalier/session-tree";
import { itemText, type RolloutLine } from "./rollout-line.ts";

/** A part of a user message: what the user said, or what the agent put in, by the name of what it is. */
export interface UserPart {
  /** Undefined for what the user said. */
  injected: string | undefined;
  content: unknown;
}

/** What messages begin with that the agent itself puts in; old files do not mark them otherwise. */
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

/**
 * Tells what the user said from what the agent put into a message of the user's role. New files say it for each part;
 * in old ones it is known by its beginning, unless the event that tells the user interface of a prompt repeats it.
 *
 * @param next the line behind it
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

/** The name of what a text is that the agent put in; undefined for any other text. */
function injectedBy(text: string): string | undefined {
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
  return kind.replace(/[^\w.-]+/g, "-").slice(0, 64);
}

function isPrompt(next: RolloutLine | undefined, text: string): boolean {
  return (
    next?.type === "event_msg" && next.payload["type"] === "user_message" && next.payload["message"] === text
  );
}
