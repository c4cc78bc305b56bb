import {
  buildSessionContext,
  type CompactionEntry,
  type ContextMessage,
  compaction,
  contextEdit,
  type Entry,
  pathRows,
  pathRowsOf,
  type SessionContext,
  type Tree,
} from "@espalier/session-tree";
import { proseOf } from "../summary-text.ts";
import { formatMessages, rowAbove } from "./shared.ts";

/** How much of a session is read, and from where. */
export interface HistoryOptions {
  /** The newest messages, at most. Default 10. */
  limit?: number;
  /** Default: the session's. */
  leafId?: string | null;
}

const DEFAULT_LIMIT = 10;

/** The newest active messages of a session, oldest first. */
export function getHistory(
  session: ReadableSession,
  { limit = DEFAULT_LIMIT, leafId = session.leafId }: HistoryOptions = {},
): ContextMessage[] {
  const active = activeMessages(buildSessionContext(session, leafId));
  return active.slice(Math.max(0, active.length - limit));
}

/** The summaries of a session and its newest active messages, as one text. The limit cuts this text alone. */
export function getHistoryContext(session: ReadableSession, options: HistoryOptions = {}): string {
  const summaries = sessionSummaries(session, options.leafId);
  const summaryText = summaries.map(({ summary }) => summary).join("\n");
  const recent = formatMessages(getHistory(session, options));
  return `${SUMMARY_HEADING}${summaryText}\n\n## RECENT MESSAGES\n${recent}`;
}

/**
 * The messages of a context that no summary stands for: all of them but what the newest compaction says. Results,
 * failed answers and commands excluded from requests count like any other message.
 */
export function activeMessages(context: Pick<SessionContext, "messages" | "sources">): ContextMessage[] {
  const compactionId = compactionIn(context);
  if (compactionId === undefined) return [...context.messages];
  return context.messages.filter((_, at) => context.sources[at] !== compactionId);
}

/** How many messages of a context are active. */
export function countActive(context: Pick<SessionContext, "messages" | "sources">): number {
  const compactionId = compactionIn(context);
  let count = context.messages.length;
  // What a compaction says stands first: its summary, and the system's words before it.
  for (let at = 0; at < context.sources.length && context.sources[at] === compactionId; at++) count--;
  return count;
}

/** The id of the compaction that speaks in a context; undefined when none does. */
export function compactionIn({
  messages,
  sources,
}: Pick<SessionContext, "messages" | "sources">): string | undefined {
  const at = messages.findIndex(({ role }) => role !== "system");
  return messages[at]?.role === "compactionSummary" ? sources[at] : undefined;
}

/**
 * Whether an entry is on the path of a leaf (default: the session's) and only a summary speaks for it there (origins 000's
 * `is_archived`): it stands before what the newest compaction keeps, or an edit took it out of that. False for entries
 * of other branches.
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
 * {@link isArchived} for many entries of one leaf, by their rows. The path is walked by what the index knows of it; of its
 * lines the newest compaction and the edits behind what it keeps are read, and no message.
 */
export function archivedRows(
  { tree, leafId: leafOfSession }: ReadableSession,
  leafId: string | null = leafOfSession,
): ArchivedRows {
  const leafRow = leafId === null ? -1 : tree.row(leafId);
  const path = new Path(tree, leafRow);
  const { compactionRow, firstKeptRow } = newestCompaction(path);
  const leftOut = rowsLeftOut(path, firstKeptRow, compactionRow, isNobodysAct);
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
 * Rows of a leaf's path (default: the session's) that would speak, had the newest edit of them not left them out, whoever
 * left them out.
 *
 * @throws EspalierError `unknown-entry`
 */
export function rowsHidden(
  { tree, leafId: leafOfSession }: ReadableSession,
  leafId: string | null = leafOfSession,
): ReadonlySet<number> {
  return rowsLeftOut(new Path(tree, leafId === null ? -1 : tree.row(leafId)), 0, tree.length, () => true);
}

/** What only a summary speaks for, at one leaf. */
export interface ArchivedRows {
  /** The compaction that counts there; -1 when none does. */
  readonly compactionRow: number;
  /** How many entries are archived. */
  readonly count: number;
  /** Whether the entry of this row is archived. */
  has(row: number): boolean;
}

/** The path that ends in a row, with what changes the context of those above it. */
class Path {
  readonly tree: Tree;
  /** Rows of compactions and edits, newest first. */
  readonly changing: Int32Array;
  readonly #isOn: Uint8Array;

  constructor(tree: Tree, leafRow: number) {
    this.tree = tree;
    this.changing = pathRowsOf(tree, leafRow, ({ firstKept, edit }) => Boolean(firstKept ?? edit)).reverse();
    this.#isOn = new Uint8Array(leafRow + 1);
    for (let row = leafRow; row >= 0; row = tree.index.parent(row)) this.#isOn[row] = 1;
  }

  /** The nearest row above `row` on the path that has this id; -1 when there is none. */
  rowAbove(id: string, row: number): number {
    return rowAbove(this.tree, id, row, (above) => this.#isOn[above] === 1);
  }
}

/** The newest compaction of a path that names something above it, or itself. */
function newestCompaction(path: Path): { compactionRow: number; firstKeptRow: number } {
  for (const row of path.changing) {
    const kind = path.tree.kindAt(row);
    if (!kind.firstKept) continue;
    const entry = path.tree.entryAt(row);
    if (kind.problem?.(entry)) continue;
    const firstKept = kind.firstKept(entry);
    const firstKeptRow = firstKept === entry.id ? row : path.rowAbove(firstKept, row);
    if (firstKeptRow >= 0) return { compactionRow: row, firstKeptRow };
  }
  return { compactionRow: -1, firstKeptRow: -1 };
}

/** What somebody hid by hand is in no summary. */
const isNobodysAct = (edit: Entry): boolean => !(contextEdit.is(edit) && edit.reason === "manual");

/** Rows between two that would speak, had the newest edit of them, one that counts, not left them out. */
function rowsLeftOut(
  path: Path,
  from: number,
  to: number,
  counts: (edit: Entry) => boolean,
): ReadonlySet<number> {
  const leftOut = new Set<number>();
  const edited = new Set<number>();
  for (const row of path.changing) {
    // Nobody edits what comes later.
    if (row <= from || to < 0) break;
    const kind = path.tree.kindAt(row);
    if (!kind.edit) continue;
    const entry = path.tree.entryAt(row);
    if (kind.problem?.(entry)) continue;
    const { targetId, replacement } = kind.edit(entry);
    const target = path.rowAbove(targetId, row);
    if (target < from || target >= to || edited.has(target)) continue;
    edited.add(target);
    if (replacement === null && counts(entry) && saysSomething(path.tree, target)) leftOut.add(target);
  }
  return leftOut;
}

/** A summary of one range of messages, never rewritten (origins 000). */
export interface SessionSummary {
  /** The id of the compaction that holds it. */
  id: string;
  sessionId: string;
  summary: string;
  /** Entries: the first and the last message that it stands for. */
  startMsgId: string | null;
  endMsgId: string | null;
  msgCount: number;
  /** ISO 8601. */
  createdAt: string;
}

/** A session, as far as its history is read. */
export interface ReadableSession {
  readonly tree: Tree;
  readonly leafId: string | null;
}

/** What the stacked summaries of a path begin with. */
export const SUMMARY_HEADING = "## PREVIOUS CONTEXT SUMMARY\n";

/** The summaries that a compaction holds, without heading and what stands beside them: what the next one is stacked on. */
export function stackIn({ summary }: Pick<CompactionEntry, "summary">): string {
  const prose = proseOf(summary);
  return prose.startsWith(SUMMARY_HEADING) ? prose.slice(SUMMARY_HEADING.length) : prose;
}

/** The range summary that a compaction recorded; undefined for those of other policies. */
export function recordedSummary({ details, fromHook }: CompactionEntry): SessionSummary | undefined {
  const recorded = (details as { sessionSummary?: SessionSummary } | null | undefined)?.sessionSummary;
  const isSound = typeof recorded === "object" && typeof recorded?.summary === "string" && !fromHook;
  return isSound ? recorded : undefined;
}

/**
 * The summaries in force at a leaf (default: the session's), oldest first: joined by newlines they are what the model
 * reads. One that another policy, an extension or another program wrote stands for everything before it.
 *
 * @throws EspalierError `unknown-entry`
 */
export function sessionSummaries(
  session: ReadableSession,
  leafId: string | null = session.leafId,
): SessionSummary[] {
  const { tree } = session;
  if (leafId === null) return [];
  const rows = pathRows(tree, tree.row(leafId));
  const onPath = new Set(rows);
  const summaries: SessionSummary[] = [];
  for (const row of rows) {
    if (tree.kindAt(row).type !== compaction.type) continue;
    const entry = tree.entryAt(row);
    if (!compaction.is(entry)) continue;
    const { id, firstKeptEntryId } = entry;
    const firstKept =
      firstKeptEntryId === id ? row : rowAbove(tree, firstKeptEntryId, row, (above) => onPath.has(above));
    // One that names nothing above it on its path says nothing.
    if (firstKept < 0) continue;
    const recorded = recordedSummary(entry);
    if (!recorded) summaries.length = 0;
    summaries.push(recorded ?? summaryOfAll(tree, rows, entry, firstKept));
  }
  return summaries;
}

/** A compaction of another make, as a summary of everything it hides. */
function summaryOfAll(
  tree: Tree,
  rows: readonly number[],
  entry: CompactionEntry,
  firstKept: number,
): SessionSummary {
  const covered = rows.filter((at) => at < firstKept && saysSomething(tree, at));
  return {
    id: entry.id,
    sessionId: tree.header?.id ?? "",
    summary: stackIn(entry),
    startMsgId: covered.length > 0 ? tree.idAt(covered[0]!) : null,
    endMsgId: covered.length > 0 ? tree.idAt(covered.at(-1)!) : null,
    msgCount: covered.length,
    createdAt: entry.timestamp,
  };
}

/** Whether the entry of a row is of a kind that speaks to a model, and no compaction. */
export function saysSomething(tree: Tree, row: number): boolean {
  const kind = tree.kindAt(row);
  return kind.toMessages !== undefined && kind.firstKept === undefined;
}
