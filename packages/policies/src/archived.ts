import { compaction, contextOfPath, pathRows, pathWindowAt } from "@espalier/session-tree";
import { type ReadableSession, saysSomething } from "./session-summary.ts";

/**
 * Whether an entry is on the path of a leaf (default: the session's) and only a summary speaks for it there (seed 000's
 * `is_archived`). False for entries of other branches, and for those that never said anything.
 *
 * @throws SessionTreeError `unknown-entry`
 */
export function isArchived(
  session: ReadableSession,
  entryId: string,
  leafId: string | null = session.leafId,
): boolean {
  session.tree.row(entryId);
  return archivedAt(session, leafId)(entryId);
}

/** {@link isArchived} for many entries of one leaf: the path is read once. */
export function archivedAt(
  session: ReadableSession,
  leafId: string | null = session.leafId,
): (entryId: string) => boolean {
  const { tree } = session;
  if (leafId === null) return () => false;
  const leafRow = tree.row(leafId);
  const window = pathWindowAt(tree, leafRow);
  const context = contextOfPath(window.entries, window.before);
  const visible = new Set(context.sources);
  const compactedBy = window.entries.findLast((entry) => compaction.is(entry) && visible.has(entry.id));
  if (!compactedBy) return () => false;
  const compactedRow = tree.index.rowOf(compactedBy.id);
  const hidden = new Set(
    pathRows(tree, leafRow).filter((row) => row < compactedRow && saysSomething(tree, row)),
  );
  return (entryId) => hidden.has(tree.index.rowOf(entryId)) && !visible.has(entryId);
}
