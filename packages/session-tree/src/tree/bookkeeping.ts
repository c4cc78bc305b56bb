import { type Entry, entryKinds, isMessage, kindOf, message } from "../entry/kinds.ts";
import { contentBlocks, contentText } from "../entry/message.ts";
import { roleAt } from "./queries.ts";
import { ROOT } from "./rows.ts";
import type { Tree } from "./tree.ts";

/**
 * Returns whether an entry is bookkeeping of an agent: not a message, answer or action of the conversation. Views hide
 * such entries unless a user asks for them. Bookkeeping is:
 *
 * - a change of the model or of the thinking level, state of an extension, a label, a name, a bill, a move of the leaf
 * - a message that an extension hides from people (`display: false`), such as the reminders of Claude Code
 * - a user message that contains only reminders of an agent
 *
 * Entries of a type that is not in the format are not bookkeeping, and neither are entries with an unreadable line.
 */
export function isBookkeeping(entry: Entry): boolean {
  if (isMessage(entry, "user")) return holdsOnlyReminders(entry.message);
  if (entry.type === "custom_message") return entry.display === false;
  return saysNothing(entry);
}

/** Same as {@link isBookkeeping}, for a row of a tree. Parses only lines of users and extensions. */
export function isBookkeepingAt(tree: Tree, row: number): boolean {
  const { type } = tree.kindAt(row);
  if (type === message.type)
    return roleAt(tree, row) === "user" && mayRemind(tree, row) && isBookkeeping(tree.entryAt(row));
  return type === "custom_message" ? isBookkeeping(tree.entryAt(row)) : SILENT.has(type);
}

/** Returns the row itself, or its nearest ancestor, that is not bookkeeping; -1 when there is none. */
export function spokenRow(tree: Tree, row: number): number {
  let at = row;
  while (at >= 0 && isBookkeepingAt(tree, at)) at = tree.index.parent(at);
  return Math.max(at, ROOT);
}

/** Kinds of the format that add no messages to the context and edit none. */
const SILENT: ReadonlySet<string> = new Set(
  entryKinds
    .filter(({ type, toMessages, edit }) => type !== "" && !toMessages && !edit)
    .map(({ type }) => type),
);

const saysNothing = (entry: Entry): boolean => SILENT.has(kindOf(entry).type);

/** Beginning of a line with a text that does not start with `<`. Blocks of an agent start with `<`. */
const PLAIN_TEXT = /"(?:content|text)":"(?!(?:\\[nrt]|\s)*<)[^"]/;
const decoder = new TextDecoder();
const mayRemind = (tree: Tree, row: number): boolean => !PLAIN_TEXT.test(decoder.decode(tree.headAt(row)));

/** Returns whether a user message has no picture, no typed word and no command of the user. */
function holdsOnlyReminders(said: { content?: unknown }): boolean {
  if (contentBlocks(said).some(({ type }) => type !== "text")) return false;
  const text = contentText(said);
  return text !== "" && typedFrom(text) === text.length && !OF_USERS.test(text);
}

/** Blocks of an agent that record an action of the user: a slash command, a shell command and its output. */
const OF_USERS = /<(?:command-name|bash-|local-command-std)/;

/** Blocks that agents add before or in place of the typed text: `<command-name>/clear</command-name>`. */
const AGENT_BLOCK =
  /\s*<(command-(?:name|message|args|contents)|local-command-(?:caveat|stdout|stderr)|bash-(?:input|stdout|stderr)|system-reminder|environment_context|user_instructions|ide_\w{1,40})>/y;

/** Returns the position of the user's own words in a text: after the blocks of the agent. */
export function typedFrom(text: string): number {
  let at = 0;
  for (;;) {
    AGENT_BLOCK.lastIndex = at;
    const [block, name] = AGENT_BLOCK.exec(text) ?? [];
    if (block === undefined) break;
    const close = `</${name}>`;
    const end = text.indexOf(close, at + block.length);
    if (end < 0) return text.length;
    at = end + close.length;
  }
  while (at > 0 && at < text.length && /\s/.test(text[at]!)) at++;
  return at;
}
