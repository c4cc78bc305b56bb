import {
  type CompactionEntry,
  compaction,
  custom,
  type Entry,
  isCustom,
  kindOf,
  messageText,
  pathRowsOf,
  type SessionTree,
} from "@espalier/session-tree";
import { editsOf } from "./edits-of.ts";

/** The `customType` of entries that pin another one: it stays in the context, word for word, over compactions. */
export const PIN = "espalier.pin";

/** Ids that are pinned at the end of a path, in the order in which they were; `before` were pinned above it. */
export function pinnedOn(path: readonly Entry[], before: readonly string[] = []): string[] {
  const pinned = new Set<string>(before);
  for (const entry of path) {
    if (!isCustom(entry, PIN)) continue;
    const { targetId, pinned: isPinned } = (entry.data ?? {}) as { targetId?: unknown; pinned?: unknown };
    if (typeof targetId !== "string") continue;
    if (isPinned === false) pinned.delete(targetId);
    else pinned.add(targetId);
  }
  return [...pinned];
}

/**
 * Pinned entries of the leaf's path with what they say, edits applied. A compaction of ours records the pins it found,
 * so that only the end of the path is read.
 */
export function pinnedTexts(session: SessionTree): { id: string; text: string }[] {
  const { entries, complete } = session.window;
  const front = entries.findLast((entry) => compaction.is(entry));
  const recorded = front && (front as CompactionEntry & { details?: { pinned?: unknown } }).details?.pinned;
  const isRecorded = Array.isArray(recorded);
  const before = isRecorded ? recorded.filter((id) => typeof id === "string") : [];
  const ids = pinnedOn(complete || isRecorded ? entries : customEntries(session), before);
  return ids.flatMap((id) => {
    const text = textOf(session, id);
    return text === "" ? [] : [{ id, text }];
  });
}

/** The leaf's path without all that cannot be a pin: of a long one hardly a line is parsed. */
function customEntries({ tree, leafId }: SessionTree): Entry[] {
  if (leafId === null) return [];
  const rows = pathRowsOf(tree, tree.row(leafId), ({ type }) => type === custom.type);
  return Array.from(rows, (row) => tree.entryAt(row));
}

/** What an entry says on the leaf's path; empty when it was edited out, or cannot be used. */
function textOf(session: SessionTree, id: string): string {
  const entry = session.getEntry(id);
  const edit = entry && editsOf(session, id).next().value;
  if (!entry || edit?.replacement === null) return "";
  const kind = kindOf(entry);
  if (kind.problem?.(entry)) return "";
  return (kind.toMessages?.(entry) ?? [])
    .map((message) => messageText(edit ? { ...message, ...(edit.replacement as object) } : message))
    .join("\n");
}
