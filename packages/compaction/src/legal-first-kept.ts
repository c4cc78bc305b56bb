import { CHARS_PER_TOKEN, type Entry, estimateTotal } from "@espalier/session-tree";
import { readSpan } from "./compaction-span.ts";
import { clings, legalCuts } from "./cut-point.ts";

/**
 * Why a path cannot be kept from this entry on, as a clause; undefined when it can. What an extension proposes is
 * held to the rule of the core: on the path, not before what the last compaction kept, and not inside a pair.
 */
export function firstKeptProblem(path: readonly Entry[], firstKeptEntryId: string): string | undefined {
  if (!path.some(({ id }) => id === firstKeptEntryId)) return "is not on the path";
  const { items } = readSpan(path);
  const from = items.findIndex(({ entry }) => entry.id === firstKeptEntryId);
  if (from < 0) return "stands before what the last compaction kept";
  // Entries that say nothing stay with what follows them; what follows has to be where a path may be cut.
  const speaks = items.findIndex((item, at) => at >= from && !clings(item));
  if (speaks < 0) return undefined;
  return legalCuts(items)[speaks] === 1
    ? undefined
    : "is not where a path may be cut (a call and its results stay together)";
}

/** Whether a summary and what a path keeps from this entry on (null: nothing) are no smaller than the path is now. */
export function isNoSmaller(
  path: readonly Entry[],
  summary: string,
  firstKeptEntryId: string | null,
): boolean {
  const { items, visible } = readSpan(path);
  const from =
    firstKeptEntryId === null ? items.length : items.findIndex(({ entry }) => entry.id === firstKeptEntryId);
  const kept = items.slice(Math.max(from, 0)).flatMap(({ messages }) => messages);
  return Math.ceil(summary.length / CHARS_PER_TOKEN) + estimateTotal(kept) >= estimateTotal(visible);
}
