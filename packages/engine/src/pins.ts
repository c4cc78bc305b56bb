import { type Entry, isCustom } from "@espalier/session-tree";

/** The `customType` of entries that pin another one: it stays in the context, word for word, over compactions. */
export const PIN = "espalier.pin";

/** Ids that are pinned at the end of a path, in the order in which they were. */
export function pinnedOn(path: readonly Entry[]): string[] {
  const pinned = new Set<string>();
  for (const entry of path) {
    if (!isCustom(entry, PIN)) continue;
    const { targetId, pinned: isPinned } = (entry.data ?? {}) as { targetId?: unknown; pinned?: unknown };
    if (typeof targetId !== "string") continue;
    if (isPinned === false) pinned.delete(targetId);
    else pinned.add(targetId);
  }
  return [...pinned];
}
