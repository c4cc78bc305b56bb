import {
  buildSessionContext,
  type CompactionEntry,
  type ContextMessage,
  compaction,
  contentBlocks,
  contextEdit,
  type Entry,
  fieldText,
  isFailedAnswer,
  kindOf,
  pathMarks,
  pathRows,
  pathRowsOf,
  type SessionContext,
  type Tree,
} from "@espalier/session-tree";
import { cutText, escapeText } from "@espalier/summarizer";
import { rangeOf } from "../compact.ts";
import { proseOf } from "../summary-text.ts";

/** Part of a session to read. */
export interface HistoryOptions {
  /** Maximum number of newest messages. Default 10. */
  limit?: number;
  /** Leaf of the path. Default: the session's. */
  leafId?: string | null;
}

const DEFAULT_LIMIT = 10;

/** Returns the newest active messages of a session, oldest first. */
export function getHistory(
  session: ReadableSession,
  { limit = DEFAULT_LIMIT, leafId = session.leafId }: HistoryOptions = {},
): ContextMessage[] {
  const active = activeMessages(buildSessionContext(session, leafId));
  return active.slice(Math.max(0, active.length - limit));
}

/**
 * Returns the summaries of a session and its newest active messages, as one text. The limit shortens only this text,
 * never a request to a model.
 */
export function getHistoryContext(session: ReadableSession, options: HistoryOptions = {}): string {
  const summaries = sessionSummaries(session, options.leafId);
  const summaryText = summaries.map(({ summary }) => summary).join("\n");
  const recent = formatMessages(getHistory(session, options));
  return `${SUMMARY_HEADING}${summaryText}\n\n## RECENT MESSAGES\n${recent}`;
}

/**
 * Returns the messages of a context that no summary replaces: all messages except those of the newest compaction.
 * Results, failed answers and commands excluded from requests count like any other message.
 */
export function activeMessages(context: Pick<SessionContext, "messages" | "sources">): ContextMessage[] {
  const compactionId = compactionIn(context);
  return context.messages.filter((_, at) => context.sources[at] !== compactionId);
}

/** Counts the active messages of a context. */
export function countActive(context: Pick<SessionContext, "messages" | "sources">): number {
  const compactionId = compactionIn(context);
  let count = context.messages.length;
  // A compaction's messages come first: its summary, after its system messages.
  for (let at = 0; at < context.sources.length && context.sources[at] === compactionId; at++) count--;
  return count;
}

/** Returns the id of the compaction whose summary is in a context; undefined when there is none. */
export function compactionIn(context: Pick<SessionContext, "messages" | "sources">): string | undefined {
  const { messages, sources } = context;
  const at = messages.findIndex(({ role }) => role !== "system");
  return messages[at]?.role === "compactionSummary" ? sources[at] : undefined;
}

/**
 * Returns whether an entry is on the path of a leaf (default: the session's) and only a summary has its content there
 * (origins 000's `is_archived`): the entry is before the entries that the newest compaction keeps, or an automatic edit
 * removed it from those. False for entries of other branches.
 *
 * @throws EspalierError `unknown-entry`
 */
export function isArchived(
  session: ReadableSession,
  entryId: string,
  leafId: string | null = session.leafId,
): boolean {
  return archivedRows(session, leafId).has(session.tree.row(entryId));
}

/**
 * {@link isArchived} for many entries of one leaf, by their rows. The path is read from the index. From the
 * log, only the newest compaction and the edits after its first kept entry are read, but no messages.
 */
export function archivedRows(
  { tree, leafId: leafOfSession }: ReadableSession,
  leafId: string | null = leafOfSession,
): ArchivedRows {
  const leafRow = leafId === null ? -1 : tree.row(leafId);
  const path = pathTo(tree, leafRow);
  const [newest] = changesOn(path, "firstKept");
  if (!newest) return { compactionRow: -1, count: 0, has: () => false };
  const { row: compactionRow, target: firstKeptRow } = newest;
  // Entries that a user hid are in no summary.
  const leftOut = rowsLeftOut(path, firstKeptRow, compactionRow, (edit) => !isMadeByUser(edit));
  const archived = new Uint8Array(compactionRow + 1);
  let count = 0;
  for (let row = compactionRow; row >= 0; row = tree.index.parent(row)) {
    if (row >= firstKeptRow && !leftOut.has(row)) continue;
    archived[row] = 1;
    count++;
  }
  return { compactionRow, count, has: (row) => archived[row] === 1 };
}

/**
 * Returns the rows of the leaf's path whose messages the newest edit leaves out, made by a user or automatically.
 *
 * @throws EspalierError `unknown-entry`
 */
export function rowsHidden({ tree, leafId }: ReadableSession): ReadonlySet<number> {
  return rowsLeftOut(pathTo(tree, leafId === null ? -1 : tree.row(leafId)), 0, tree.length, () => true);
}

/** An edit of an entry above it: the fields that replace the entry's message, or null to leave the entry out. */
export interface AppliedEdit {
  edit: Entry;
  replacement: object | null;
}

/**
 * Returns the newest edit of each row that has one. For a row of the path, only edits of the path count; for a row of
 * another branch, only edits of other branches.
 */
export function newestEdits(tree: Tree, onPath: Uint8Array): ReadonlyMap<number, AppliedEdit> {
  const newest = new Map<number, AppliedEdit>();
  for (let row = tree.length - 1; row >= 0; row--) {
    if (!tree.kindAt(row).edit) continue;
    const edit = tree.entryAt(row);
    const kind = kindOf(edit);
    if (kind.problem?.(edit)) continue;
    const { targetId, replacement } = kind.edit!(edit);
    const target = tree.index.rowAbove(targetId, row);
    if (target >= 0 && onPath[row] === onPath[target] && !newest.has(target))
      newest.set(target, { edit, replacement });
  }
  return newest;
}

/** Archived entries of one leaf. */
export interface ArchivedRows {
  /** Row of the compaction that applies at the leaf; -1 when there is none. */
  readonly compactionRow: number;
  /** Number of archived entries. */
  readonly count: number;
  /** Returns whether the entry of this row is archived. */
  has(row: number): boolean;
}

/** The path that ends at a row: its rows of compactions and edits, newest first, and a mark for each row on it. */
const pathTo = (tree: Tree, leafRow: number) => ({
  tree,
  changing: pathRowsOf(tree, leafRow, ({ firstKept, edit }) => Boolean(firstKept ?? edit)).reverse(),
  isOn: pathMarks(tree, leafRow),
});

/**
 * Yields the compactions or the edits of a path that name an entry above them (a compaction also itself), newest first,
 * as far as the row `above`; `target` is the row of the named entry.
 */
function* changesOn(path: ReturnType<typeof pathTo>, sort: "firstKept" | "edit", above = -1) {
  const { tree, changing, isOn } = path;
  for (const row of changing) {
    if (row <= above) return;
    const kind = tree.kindAt(row);
    if (!kind[sort]) continue;
    const entry = tree.entryAt(row);
    if (kind.problem?.(entry)) continue;
    const edit = kind.edit?.(entry);
    const named = edit?.targetId ?? kind.firstKept!(entry);
    let target = !edit && named === entry.id ? row : tree.index.rowAbove(named, row);
    // In a damaged log several entries can have the same id, on other branches too.
    while (target >= 0 && isOn[target] !== 1) target = tree.index.rowAbove(named, target);
    if (target >= 0) yield { entry, row, target, replacement: edit?.replacement };
  }
}

/** Returns whether a user made this edit, and not a policy. */
export const isMadeByUser = (edit: Entry): boolean => contextEdit.is(edit) && edit.reason === "manual";

/** Returns the rows between two rows whose messages are left out by their newest edit that counts. */
function rowsLeftOut(
  path: ReturnType<typeof pathTo>,
  from: number,
  to: number,
  counts: (edit: Entry) => boolean,
): ReadonlySet<number> {
  const leftOut = new Set<number>();
  const edited = new Set<number>();
  // An edit never targets a later entry.
  for (const { entry, target, replacement } of changesOn(path, "edit", from)) {
    if (target < from || target >= to || edited.has(target)) continue;
    edited.add(target);
    if (replacement === null && counts(entry) && hasMessages(path.tree, target)) leftOut.add(target);
  }
  return leftOut;
}

/** A summary of one range of messages, never rewritten (origins 000). */
export interface SessionSummary {
  /** Id of the compaction that has this summary. */
  id: string;
  sessionId: string;
  summary: string;
  /** Entry id of the first message that the summary replaces; null when it replaces none. */
  startMsgId: string | null;
  /** Entry id of the last message that the summary replaces; null when it replaces none. */
  endMsgId: string | null;
  msgCount: number;
  /** ISO 8601. */
  createdAt: string;
}

/** The members of a session that its history needs. */
export interface ReadableSession {
  readonly tree: Tree;
  readonly leafId: string | null;
}

/**
 * First line of a summary of the policy `message-count`, and of the text of `getHistoryContext`; all earlier summaries
 * follow it.
 */
export const SUMMARY_HEADING = "## PREVIOUS CONTEXT SUMMARY\n";

/** Returns the summaries of a compaction, without heading and blocks; the next summary is appended to them. */
export function stackIn({ summary }: Pick<CompactionEntry, "summary">): string {
  const prose = proseOf(summary);
  return prose.startsWith(SUMMARY_HEADING) ? prose.slice(SUMMARY_HEADING.length) : prose;
}

/** Returns the range summary that a compaction recorded; undefined for compactions of other policies or extensions. */
export function recordedSummary({ details, fromHook }: CompactionEntry): SessionSummary | undefined {
  const recorded = (details as { sessionSummary?: SessionSummary } | null | undefined)?.sessionSummary;
  const isSound = typeof recorded === "object" && typeof recorded?.summary === "string" && !fromHook;
  return isSound ? recorded : undefined;
}

/**
 * Returns the current summaries at a leaf (default: the session's), oldest first; joined by newlines they are the text
 * that the model reads. A summary of another policy, an extension or another program replaces all summaries before it.
 *
 * @throws EspalierError `unknown-entry`
 */
export function sessionSummaries(
  session: ReadableSession,
  leafId: string | null = session.leafId,
): SessionSummary[] {
  const { tree } = session;
  const leafRow = leafId === null ? -1 : tree.row(leafId);
  const summaries: SessionSummary[] = [];
  for (const { entry, target } of changesOn(pathTo(tree, leafRow), "firstKept")) {
    if (!compaction.is(entry)) continue;
    const recorded = recordedSummary(entry);
    summaries.unshift(recorded ?? summaryOfAll(tree, leafRow, entry, target));
    if (!recorded) break;
  }
  return summaries;
}

/** Converts a compaction of another policy to a summary of all entries that it hides. */
function summaryOfAll(
  tree: Tree,
  leafRow: number,
  entry: CompactionEntry,
  firstKeptRow: number,
): SessionSummary {
  const covered = pathRows(tree, leafRow).filter((row) => row < firstKeptRow && hasMessages(tree, row));
  const { firstEntryId, lastEntryId, messages } = rangeOf(covered.map((row) => tree.idAt(row)));
  return {
    id: entry.id,
    sessionId: tree.header?.id ?? "",
    summary: stackIn(entry),
    startMsgId: firstEntryId,
    endMsgId: lastEntryId,
    msgCount: messages,
    createdAt: entry.timestamp,
  };
}

/** Returns whether the entry of a row is of a kind with messages for the model, other than a compaction. */
export function hasMessages(tree: Tree, row: number): boolean {
  const kind = tree.kindAt(row);
  return kind.toMessages !== undefined && kind.firstKept === undefined;
}

/** Maximum number of characters of a tool result or a command's output for a summarizer. */
const RESULT_LIMIT = 2_000;

/**
 * Formats messages as lines `role: content` (origins 000). Calls and media are in brackets, a failed answer ends with
 * `[failed]`; thinking and commands excluded from requests are left out.
 */
export function formatMessages(messages: readonly ContextMessage[]): string {
  return linesOf(messages, Number.POSITIVE_INFINITY).join("\n");
}

/**
 * Formats messages as {@link formatMessages} does, as data for a summarizer: between tags, escaped, results cut to
 * 2,000 characters. Further lines of one message are indented, so that none of them looks like another message.
 */
export function renderLines(messages: readonly ContextMessage[]): string {
  const lines = linesOf(messages, RESULT_LIMIT).map((line) => line.replace(LINE_END, "\n  "));
  return `<transcript>\n${escapeText(lines.join("\n"))}\n</transcript>`;
}

/** Every character sequence that a reader may take for the end of a line. */
const LINE_END = /\r\n|[\n\r\v\f\u0085\u2028\u2029]/g;

const linesOf = (messages: readonly ContextMessage[], resultLimit: number): string[] =>
  messages
    .filter((message) => message.role !== "bashExecution" || !message.excludeFromContext)
    .map((message) => `${message.role}: ${contentOf(message, resultLimit)}`);

function contentOf(message: ContextMessage, resultLimit: number): string {
  if (message.role === "bashExecution")
    return `$ ${fieldText(message.command)}\n${cutText(fieldText(message.output), resultLimit)}`;
  const parts = contentBlocks(message).flatMap((block) => {
    if (block.type === "thinking") return [];
    if (block.type === "text") {
      // A field from a file is not always text.
      const text = fieldText(block.text);
      return [message.role === "toolResult" ? cutText(text, resultLimit) : text];
    }
    if (block.type === "toolCall") return [`[${fieldText(block.name)} ${fieldText(block.arguments ?? {})}]`];
    return [`[${block.type}]`];
  });
  if (isFailedAnswer(message)) parts.push("[failed]");
  return parts.join("\n");
}
