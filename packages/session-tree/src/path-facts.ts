import type { ContextEdit, Entry, EntryKind } from "./entry.ts";
import { kindOf } from "./entry-kinds.ts";

/** What a path's compactions and edits come to. References that name nothing above them on the path count for nothing. */
export interface PathFacts {
  /** Position of the newest compaction that holds; -1 when there is none. */
  compactedAt: number;
  /** Position of the first entry that is visible beside the compaction. */
  keptFrom: number;
  /** The newest edit of each entry, by its position. */
  edits: ReadonlyMap<number, ContextEdit["replacement"]>;
  /** From the target of each visible edit to the edit, in order of the edits. */
  editReaches: readonly { from: number; to: number }[];
}

/** Reads a path once, root first. */
export function readPathFacts(path: readonly Entry[]): PathFacts {
  // Most paths have neither, and to remember where each id of a long one stands takes longer than to see that.
  if (!path.some((entry) => refersBack(kindOf(entry)))) return NO_FACTS;
  const above = new Map<string, number>();
  const edits = new Map<number, ContextEdit["replacement"]>();
  const reaches: { from: number; to: number }[] = [];
  let compactedAt = -1;
  let keptFrom = 0;
  for (let at = 0; at < path.length; at++) {
    const entry = path[at]!;
    const kind = kindOf(entry);
    if (refersBack(kind) && !kind.problem?.(entry)) {
      if (kind.firstKept) {
        const firstKept = kind.firstKept(entry);
        const kept = firstKept === entry.id ? at : above.get(firstKept);
        if (kept !== undefined) {
          compactedAt = at;
          keptFrom = kept;
        }
      }
      if (kind.edit) {
        const { targetId, replacement } = kind.edit(entry);
        const target = above.get(targetId);
        if (target !== undefined) {
          edits.set(target, replacement);
          reaches.push({ from: target, to: at });
        }
      }
    }
    above.set(entry.id, at);
  }
  const visible = ({ from }: { from: number }) => from >= keptFrom || from === compactedAt;
  return { compactedAt, keptFrom, edits, editReaches: reaches.filter(visible) };
}

/** Whether an entry says something of one above it. */
const refersBack = (kind: EntryKind): boolean => kind.firstKept !== undefined || kind.edit !== undefined;

const NO_FACTS: PathFacts = { compactedAt: -1, keptFrom: 0, edits: new Map(), editReaches: [] };

/**
 * For each position: whether something before it in the context changed after it was said. A compaction changes what
 * stands before everything it keeps; an edit what stands before everything between its target and itself.
 */
export function changedPositions({ compactedAt, editReaches }: PathFacts, length: number): Uint8Array {
  const changed = new Uint8Array(length);
  if (compactedAt > 0) changed.fill(1, 0, compactedAt);
  // Walked from the newest edit: `reach` is the earliest target of any edit that comes later than `at`.
  let reach = Number.POSITIVE_INFINITY;
  let next = editReaches.length - 1;
  for (let at = length - 1; at >= 0; at--) {
    if (at > reach) changed[at] = 1;
    for (; next >= 0 && editReaches[next]!.to === at; next--)
      reach = Math.min(reach, editReaches[next]!.from);
  }
  return changed;
}
