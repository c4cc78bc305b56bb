import {
  type CompactionEntry,
  compaction,
  type Entry,
  isCustom,
  kindOf,
  messageText,
  type SessionTree,
} from "@espalier/session-tree";

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
 * Pinned entries of the leaf's path with what they say. A compaction of ours records the pins it found, so that only
 * the end of the path is read.
 */
export function pinnedTexts(session: SessionTree): { id: string; text: string }[] {
  const { entries, complete } = session.window;
  const front = entries.findLast((entry) => compaction.is(entry));
  const recorded = front && (front as CompactionEntry & { details?: { pinned?: unknown } }).details?.pinned;
  const isRecorded = Array.isArray(recorded);
  const ids = pinnedOn(complete || isRecorded ? entries : session.getBranch(), isRecorded ? recorded : []);
  return ids.flatMap((id) => {
    const entry = session.getEntry(id);
    const text = entry ? (kindOf(entry.type).toMessages?.(entry) ?? []).map(messageText).join("\n") : "";
    return text === "" ? [] : [{ id, text }];
  });
}
