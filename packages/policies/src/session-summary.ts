import { proseOf } from "@espalier/compaction";
import { type CompactionEntry, compaction, pathRows, type Tree } from "@espalier/session-tree";
import { rowAbove } from "./row-above.ts";

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
 * @throws SessionTreeError `unknown-entry`
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
