import type { BaseEntry, EntryKind, SessionIssue, SessionIssueKind } from "../entry/entry.ts";
import {
  type Entry,
  entryKinds,
  isMessage,
  kindCode,
  kindOf,
  label,
  message,
  type SessionInfoEntry,
  sessionInfo,
} from "../entry/kinds.ts";
import { DAMAGED } from "../entry/line.ts";
import { contentBlocks, contentText, messageText } from "../entry/message.ts";
import { ORPHAN, ROOT } from "./intake.ts";
import type { Tree } from "./tree.ts";

/** A branch of the tree: its end, and the texts by which a person recognizes it. */
export interface Branch {
  /** Id of the last entry of the branch. */
  leafId: string;
  /** Text of the last user message on the branch's path; empty when there is none. */
  lastUserText: string;
  /** Timestamp of the last entry, ISO 8601. */
  timestamp: string;
}

/** Returns the last rows of all branches, in file order: entries that move the leaf and have no descendants that do. */
export function tipRows(tree: Tree): number[] {
  const { index } = tree;
  const moving = new Uint8Array(index.length);
  const tips: number[] = [];
  for (let row = index.length - 1; row >= 0; row--) {
    const moves = tree.kindAt(row).movesLeaf;
    if (moves && moving[row] === 0) tips.push(row);
    const parent = index.parent(row);
    if (parent >= 0 && (moves || moving[row] === 1)) moving[parent] = 1;
  }
  return tips.reverse();
}

/** Returns all branches, in the file order of their last entries. */
export function branches(tree: Tree): Branch[] {
  const askedAt = new AskedRows(tree);
  return tipRows(tree).map((row) => {
    const asked = askedAt.of(row);
    const entry = asked < 0 ? undefined : tree.entryAt(asked);
    return {
      leafId: tree.idAt(row),
      lastUserText: entry && isMessage(entry, "user") ? messageText(entry.message) : "",
      timestamp: tree.entryAt(row).timestamp,
    };
  });
}

const UNKNOWN = -2;

/** Finds the newest user message on the path of each row. Each row is read once, even if many branches share it. */
class AskedRows {
  readonly #tree: Tree;
  readonly #asked: Int32Array;

  constructor(tree: Tree) {
    this.#tree = tree;
    this.#asked = new Int32Array(tree.length).fill(UNKNOWN);
  }

  /** Returns the row of the message; -1 when there is none. */
  of(row: number): number {
    const climbed: number[] = [];
    let at = row;
    while (at >= 0 && this.#asked[at] === UNKNOWN && !this.#isAsked(at)) {
      climbed.push(at);
      at = this.#tree.index.parent(at);
    }
    const asked = at < 0 ? -1 : this.#asked[at] === UNKNOWN ? at : this.#asked[at]!;
    for (const passed of climbed) this.#asked[passed] = asked;
    return asked;
  }

  #isAsked(row: number): boolean {
    const { type } = this.#tree.kindAt(row);
    return type === message.type && isMessage(this.#tree.entryAt(row), "user");
  }
}

/** Entries in file order, as the rules of the leaf need them. A `Tree` has this shape. */
export interface EntryRows {
  /** Returns the kind of a row's entry. */
  kindAt(row: number): EntryKind;
  /** Returns the entry of a row, parsed. */
  entryAt(row: number): Entry;
  /** Parents and ids of the rows. */
  readonly index: {
    /** Returns the row of the parent, `ROOT` or `ORPHAN`. */
    parent(row: number): number;
    /** Returns the newest row above `row` with this id; -1 when there is none. */
    rowAbove(id: string, row: number): number;
  };
}

/**
 * Returns the row of the leaf, under which the next entry is appended, when `lastRow` is the last row; -1 before the
 * first entry. A line that does not determine a leaf is ignored, and the line before it decides: a `leaf` whose target
 * is not above it, or an entry outside the conversation whose ancestors are lost.
 */
export function leafRowAt(rows: EntryRows, lastRow: number): number {
  // Rows whose ancestors are lost. Each row is climbed once, even if many lines lead to it.
  const lost = new Set<number>();
  for (let row = lastRow; row >= 0; row--) {
    const from = targetOf(rows, row);
    if (from === ROOT) return ROOT;
    const leaf = from === ORPHAN ? ORPHAN : climb(rows, from, lost);
    if (leaf !== ORPHAN) return leaf;
  }
  return ROOT;
}

/** Returns the row that a line names as the leaf: its own row, or the target of a `leaf` entry. */
function targetOf(rows: EntryRows, row: number): number {
  const kind = rows.kindAt(row);
  if (!kind.leafTarget) return row;
  const target = kind.leafTarget(rows.entryAt(row));
  if (target === null) return ROOT;
  const above = rows.index.rowAbove(target, row);
  return above < 0 ? ORPHAN : above;
}

/**
 * Returns the row itself when its kind moves the leaf, else its nearest ancestor that does; `ROOT` or `ORPHAN` when
 * there is none.
 */
function climb(rows: EntryRows, row: number, lost?: Set<number>): number {
  const climbed: number[] = [];
  let at = row;
  while (at >= 0 && !rows.kindAt(at).movesLeaf) {
    climbed.push(at);
    at = lost?.has(at) ? ORPHAN : rows.index.parent(at);
  }
  if (at === ORPHAN) for (const passed of climbed) lost?.add(passed);
  return at;
}

/** Returns the row itself when it can be the leaf, else its nearest ancestor that can; -1 when there is none. */
export function movingRow(rows: EntryRows, row: number): number {
  return row < 0 ? ROOT : Math.max(climb(rows, row), ROOT);
}

/**
 * Returns the row of a leaf; -1 is before the first entry.
 *
 * @param leafId default: the leaf at which the log opens. null is before the first entry. An entry that cannot be the
 * leaf (a label) stands for its nearest ancestor that can
 * @throws EspalierError `unknown-entry`
 */
export function rowOfLeaf(rows: EntryRows & Pick<Tree, "lastRow" | "row">, leafId?: string | null): number {
  if (leafId === undefined) return leafRowAt(rows, rows.lastRow);
  return leafId === null ? ROOT : movingRow(rows, rows.row(leafId));
}

/** Returns the id of the leaf at which the log opens; null before the first entry. */
export function leafOf(tree: Tree): string | null {
  const row = rowOfLeaf(tree);
  return row < 0 ? null : tree.idAt(row);
}

/** The current label of an entry. */
export interface LabelInForce {
  /** Text of the label; never empty. */
  label: string;
  /** Row of the `label` entry that set the label. */
  row: number;
  /** Timestamp of the `label` entry, ISO 8601. */
  timestamp: string;
}

/**
 * Returns the current labels, by the id of the labelled entry. The last label in file order wins, over all branches;
 * one without text clears the label.
 */
export function labelsInForce(tree: Tree): Map<string, LabelInForce> {
  const labels = new Map<string, LabelInForce>();
  for (const [row, entry] of rowsOf(tree, label)) {
    if (entry.label) {
      labels.set(entry.targetId, { label: entry.label, row, timestamp: entry.timestamp });
    } else labels.delete(entry.targetId);
  }
  return labels;
}

/** Returns the session's name: the last one in file order, over all branches; undefined when it has none. */
export function sessionName(tree: Tree): string | undefined {
  return nameEntry(tree)?.name || undefined;
}

/** Returns the entry that last set or cleared the session's name, in file order; undefined when there is none. */
export function nameEntry(tree: Tree): SessionInfoEntry | undefined {
  const code = kindCode(sessionInfo.type);
  for (let row = tree.length - 1; row >= 0; row--) {
    if (tree.index.kind(row) !== code) continue;
    const entry = tree.entryAt(row);
    if (sessionInfo.is(entry)) return entry;
  }
  return undefined;
}

/** Yields all valid entries of a kind with their rows, in file order. For a kind of the format, only their lines are read. */
export function* rowsOf<E extends BaseEntry>(tree: Tree, kind: EntryKind<E>): Generator<[number, E]> {
  const code = kindCode(kind.type);
  for (let row = 0; row < tree.length; row++) {
    if (tree.index.kind(row) !== code) continue;
    const entry: BaseEntry = tree.entryAt(row);
    if (kind.is(entry)) yield [row, entry];
  }
}

/**
 * `"role":"user"` directly after the opening brace of `message`, which is the line's first inner object: one further on
 * may be in another field. Inside a text, the quotation marks would be escaped.
 */
const ROLE = /^\s*\{[^{]*"message"\s*:\s*\{\s*"role"\s*:\s*"(\w+)"/;
const decoder = new TextDecoder("latin1");

/**
 * Returns the role of the message in a row; undefined for an entry that is not a valid `message` entry. Reads only the
 * line's beginning, which has the role in nearly every line; other lines are parsed.
 */
export function roleAt(tree: Tree, row: number): string | undefined {
  if (tree.kindAt(row).type !== message.type) return undefined;
  const found = ROLE.exec(decoder.decode(tree.headAt(row)))?.[1];
  if (found !== undefined) return found;
  const entry = tree.entryAt(row);
  const role: unknown = message.is(entry) ? entry.message.role : undefined;
  return typeof role === "string" ? role : undefined;
}

/**
 * Returns an issue `bad-reference` for each compaction whose first kept entry, and each edit whose target, is not on
 * its path, and for each label or leaf entry whose target is not above it; and `invalid-entry` for each entry that its
 * kind refuses. Reads every entry; linear in their number.
 */
export function referenceIssues(tree: Tree): SessionIssue[] {
  const issues: SessionIssue[] = [];
  const targets = pathTargets(tree);
  for (let row = 0; row < tree.length; row++) {
    const entry = tree.entryAt(row);
    if (entry.type === DAMAGED) continue;
    const kind = tree.kindAt(row);
    const note = (issue: SessionIssueKind, message: string) =>
      issues.push({ kind: issue, line: null, offset: tree.index.offset(row), id: entry.id, message });
    const problem = kind.problem?.(entry);
    if (problem) note("invalid-entry", `A ${entry.type} entry is not valid: ${problem}.`);
    else {
      const reference = referenceProblem(tree, row, entry, targets.has(row));
      if (reference) note("bad-reference", reference);
    }
  }
  return issues;
}

function referenceProblem(tree: Tree, row: number, entry: Entry, hasTarget: boolean): string | undefined {
  const kind = tree.kindAt(row);
  if (kind.firstKept && !hasTarget)
    return "The first kept entry of a compaction is not on its path; the compaction has no effect.";
  if (kind.edit && !hasTarget)
    return "An edit names an entry that is not on its path; the edit has no effect.";
  if (kind.leafTarget) {
    const target = kind.leafTarget(entry);
    if (target !== null && tree.index.rowAbove(target, row) < 0)
      return "A leaf names an entry that is not above it; the leaf is ignored.";
  }
  // A fork copies the labels of its path, also that of an entry which it does not have.
  const mayLack = tree.header?.parent?.kind === "fork";
  if (label.is(entry) && !mayLack && tree.index.rowAbove(entry.targetId, row) < 0)
    return "A label names an entry that is not above it.";
  return undefined;
}

/**
 * Returns the targets of compactions and edits on their own paths, by the row of the compaction or edit. Without a
 * target on the path there is no item. When several entries of the path have the id, the nearest is the target, as in
 * the context. A compaction that keeps nothing is its own target. Linear in the number of rows.
 */
export function pathTargets(tree: Tree): Map<number, number> {
  const named = new Map<number, string>();
  // For each id, its rows on the path from the root to the current row.
  const above = new Map<string, number[]>();
  for (let row = 0; row < tree.length; row++) {
    const kind = tree.kindAt(row);
    if (!kind.firstKept && !kind.edit) continue;
    const entry = tree.entryAt(row);
    if (kind.problem?.(entry)) continue;
    const id = kind.firstKept?.(entry) ?? kind.edit!(entry).targetId;
    named.set(row, id);
    above.set(id, []);
  }
  const targets = new Map<number, number>();
  if (named.size === 0) return targets;
  const { order, size } = walkOf(tree);
  const enter = new Int32Array(order.length);
  for (const [at, row] of order.entries()) {
    enter[row] = at;
    const passed = (id: string): number[] | undefined => {
      const rows = above.get(id);
      while (rows && rows.length > 0 && enter[rows.at(-1)!]! + size[rows.at(-1)!]! <= at) rows.pop();
      return rows;
    };
    const own = passed(tree.idAt(row));
    const id = named.get(row);
    if (id !== undefined) {
      const isItself = tree.kindAt(row).firstKept && id === tree.idAt(row);
      const target = isItself ? row : passed(id)!.at(-1);
      if (target !== undefined) targets.set(row, target);
    }
    own?.push(row);
  }
  return targets;
}

/** Returns the rows in depth-first order from the roots, and the size of each row's subtree, including the row. */
function walkOf({ index }: Tree): { order: Int32Array; size: Int32Array } {
  const size = new Int32Array(index.length).fill(1);
  for (let row = index.length - 1; row >= 0; row--) {
    const parent = index.parent(row);
    if (parent >= 0) size[parent] = size[parent]! + size[row]!;
  }
  const order = new Int32Array(index.length);
  // Position of each row's next child, or of the next root. One pass is enough, because parents come before children.
  const next = new Int32Array(index.length);
  let nextRoot = 0;
  for (let row = 0; row < index.length; row++) {
    const parent = index.parent(row);
    const at = parent < 0 ? nextRoot : next[parent]!;
    if (parent < 0) nextRoot += size[row]!;
    else next[parent] = at + size[row]!;
    order[at] = row;
    next[row] = at + 1;
  }
  return { order, size };
}

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
  return SILENT.has(kindOf(entry).type);
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

/** Beginning of a line with a text that does not start with `<`. Blocks of an agent start with `<`. */
const PLAIN_TEXT = /"(?:content|text)":"(?!(?:\\[nrt]|\s)*<)[^"]/;
const utf8 = new TextDecoder();
const mayRemind = (tree: Tree, row: number): boolean => !PLAIN_TEXT.test(utf8.decode(tree.headAt(row)));

/** Returns whether a user message has no image, no typed word and no command of the user. */
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

/**
 * Returns the offset of the typed text: after the agent's blocks (`<system-reminder>…`) and the space behind them. The
 * length of `text` if a block is not closed.
 */
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
