import { type Entry, entryKinds, isMessage, kindOf, message } from "../entry/kinds.ts";
import { contentBlocks, contentText } from "../entry/message.ts";
import { roleAt } from "./queries.ts";
import { ROOT } from "./rows.ts";
import type { Tree } from "./tree.ts";

/**
 * Returns whether an entry is bookkeeping of an agent: nothing that a person said, was answered or did. Views leave such
 * entries out unless a user asks for them. Bookkeeping is:
 *
 * - a change of the model or of the thinking level, state of an extension, a label, a name, a bill, a move of the leaf
 * - a message that an extension hides from people (`display: false`), such as the reminders of Claude Code
 * - a user message that holds nothing but an agent's reminders
 *
 * An entry of a type that the format lacks is none, and neither is one whose line cannot be read.
 */
export function isBookkeeping(entry: Entry): boolean {
  if (isMessage(entry, "user")) return holdsOnlyReminders(entry.message);
  if (entry.type === "custom_message") return entry.display === false;
  return saysNothing(entry);
}

/** As {@link isBookkeeping} for a row of a tree; parses only lines of users and extensions. */
export function isBookkeepingAt(tree: Tree, row: number): boolean {
  const { type } = tree.kindAt(row);
  if (type === message.type)
    return roleAt(tree, row) === "user" && mayRemind(tree, row) && isBookkeeping(tree.entryAt(row));
  return type === "custom_message" ? isBookkeeping(tree.entryAt(row)) : SILENT.has(type);
}

/** The row itself, or the nearest one above it, that is part of what was said; -1 where there is none. */
export function spokenRow(tree: Tree, row: number): number {
  let at = row;
  while (at >= 0 && isBookkeepingAt(tree, at)) at = tree.index.parent(at);
  return Math.max(at, ROOT);
}

/** Kinds of the format that say nothing to a model and take nothing from it. */
const SILENT: ReadonlySet<string> = new Set(
  entryKinds
    .filter(({ type, toMessages, edit }) => type !== "" && !toMessages && !edit)
    .map(({ type }) => type),
);

const saysNothing = (entry: Entry): boolean => SILENT.has(kindOf(entry).type);

/** Text of a user message that begins with a block of an agent begins with `<`; the beginning of its line shows it. */
const PLAIN_TEXT = /"(?:content|text)":"(?!(?:\\[nrt]|\s)*<)[^"]/;
const decoder = new TextDecoder();
const mayRemind = (tree: Tree, row: number): boolean => !PLAIN_TEXT.test(decoder.decode(tree.headAt(row)));

/** A user message without a picture, a typed word, or a command that the user gave. */
function holdsOnlyReminders(said: { content?: unknown }): boolean {
  if (contentBlocks(said).some(({ type }) => type !== "text")) return false;
  const text = contentText(said);
  return text !== "" && typedFrom(text) === text.length && !OF_USERS.test(text);
}

/** Blocks of an agent that record an act of the user: a slash command, a shell command and its output. */
const OF_USERS = /<(?:command-name|bash-|local-command-std)/;

/** Blocks that agents put before what the user typed, or in its place: `<command-name>/clear</command-name>`. */
const AGENT_BLOCK =
  /\s*<(command-(?:name|message|args|contents)|local-command-(?:caveat|stdout|stderr)|bash-(?:input|stdout|stderr)|system-reminder|environment_context|user_instructions|ide_\w{1,40})>/y;

/** Returns the position at which the user's own words begin in a text: behind the blocks of the agent. */
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
