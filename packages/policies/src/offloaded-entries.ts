import {
  type ContextEdit,
  type ContextMessage,
  contextEdit,
  type Entry,
  isMessage,
  messageText,
} from "@espalier/session-tree";
import { offloadReference, referencedPath } from "./offload-reference.ts";
import type { OffloadStorage } from "./offload-storage.ts";

/** An entry whose content lies in a file, as the newest edit of it says. */
export interface OffloadedEntry {
  targetId: string;
  path: string;
}

/** What the end of a path has in files. Entries that a newer edit gave another content are not among it. */
export function offloadedEntries(path: readonly Entry[]): OffloadedEntry[] {
  const found = new Map<string, string>();
  for (const entry of path) {
    if (!contextEdit.is(entry)) continue;
    const at = entry.replacement === null ? undefined : referencedPath(entry.replacement);
    if (at === undefined) found.delete(entry.targetId);
    else found.set(entry.targetId, at);
  }
  const ids = new Set(path.map(({ id }) => id));
  // What a compaction hides is above the end of the path that was given.
  return [...found]
    .filter(([targetId]) => ids.has(targetId))
    .map(([targetId, at]) => ({ targetId, path: at }));
}

/** What makes the files of a path whole again. */
export interface OffloadRepair {
  /** Texts whose file may be missing, from the log. */
  texts: { path: string; text: string }[];
  /** For entries whose file lies elsewhere, as after a fork or a move: what names the own file instead. */
  edits: ContextEdit[];
}

/**
 * How files that a path refers to (default: all of them) are had again from the log. A reference whose name is not the
 * one its original would get was not written by us, and is left alone.
 */
export function planOffloadRepair(
  path: readonly Entry[],
  storage: Pick<OffloadStorage, "pathFor">,
  entries: readonly OffloadedEntry[] = offloadedEntries(path),
): OffloadRepair {
  const byId = new Map(path.map((entry) => [entry.id, entry]));
  const repair: OffloadRepair = { texts: [], edits: [] };
  for (const { targetId, path: named } of entries) {
    const text = originalText(byId.get(targetId));
    if (text === undefined) continue;
    const own = storage.pathFor(text);
    if (lastPart(own) !== lastPart(named)) continue;
    repair.texts.push({ path: own, text });
    if (own !== named) repair.edits.push({ targetId, replacement: { content: contentFor(own) } });
  }
  return repair;
}

/** The content of a result that lies at a path. */
export const contentFor = (path: string): { type: "text"; text: string }[] => [
  { type: "text", text: offloadReference(path) },
];

/** The whole text of a result as the log has it. */
export function originalText(entry: Entry | undefined): string | undefined {
  return entry && isMessage(entry, "toolResult") ? messageText(entry.message as ContextMessage) : undefined;
}

const lastPart = (path: string): string => path.split(/[/\\]/).at(-1) ?? path;
