import { contentBlocks, type UserMessage } from "@espalier/session-tree";
import { isContinuation } from "./markers.ts";

/** Characters of one message that are looked at as the user's words; what is beyond is pasted. */
const LONGEST_MESSAGE = 20_000;
/** Blocks that programs put into a user's message: `<system-reminder>…</system-reminder>`, `<environment_context>…`. */
const OPENING_TAG = /<([a-z]+(?:[-_][a-z]+)+)(?:\s[^<>]{0,200})?>/g;

/** Lines that an agent writes in the user's name, or that steer the agent and ask for nothing. */
const AGENT_LINES =
  /^[ \t]*(?:\[Request interrupted by user[^\]\n]{0,80}\]|\/(?:mode|model|clear|compact|config|cost|context|exit|quit|resume|login|logout|permissions|status|theme|usage|vim|fast|effort|approvals|new)(?:[ \t][^\n]{0,80})?)[ \t]*$/gm;

/** A user's text without the lines that an agent wrote in the user's name and those that only steer the agent. */
export function withoutAgentLines(text: string): string {
  return text.replace(AGENT_LINES, "");
}

/** What the user wrote, without what programs put around it; empty when nothing of it is the user's. */
export function userWords(message: UserMessage | { content?: unknown }): string {
  let text = "";
  for (const block of contentBlocks(message)) {
    if (block.type === "text" && typeof block.text === "string")
      text += `${text === "" ? "" : "\n"}${block.text}`;
    if (text.length >= LONGEST_MESSAGE) break;
  }
  return withoutAgentLines(withoutInjectedBlocks(text.slice(0, LONGEST_MESSAGE))).trim();
}

function withoutInjectedBlocks(text: string): string {
  let left = "";
  let from = 0;
  for (const match of text.matchAll(OPENING_TAG)) {
    if (match.index < from) continue;
    const closing = `</${match[1]}>`;
    const end = text.indexOf(closing, match.index);
    if (end === -1) continue;
    left += text.slice(from, match.index);
    from = end + closing.length;
  }
  return left + text.slice(from);
}

/** True for words that ask for something, unlike "continue", "ok" or a bare `/command`. */
export function isRequest(words: string): boolean {
  if (words === "" || /^\/\S*$/.test(words) || isContinuation(words)) return false;
  return /\S\s+\S/.test(words) || /[\p{Lo}]{3}/u.test(words) || /[./_]\w/.test(words) || words.length >= 12;
}

/**
 * The lines of a request that are words of a person, without what was pasted between them; all of it where no line is.
 * For places that are too small for the whole.
 */
export function gistOf(words: string): string {
  const lines = words.split("\n").filter((line) => {
    const letters = line.match(/\p{L}/gu)?.length ?? 0;
    return (
      letters / Math.max(line.trim().length, 1) > 0.5 &&
      (/\p{L}\s+\p{L}/u.test(line) || /\p{Lo}{3}/u.test(line)) &&
      !/[{};]\s*$/.test(line)
    );
  });
  return lines.length === 0 ? words : lines.join(" ");
}
