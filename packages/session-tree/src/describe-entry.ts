import { branchSummary } from "./entries/branch-summary.ts";
import { compaction } from "./entries/compaction.ts";
import { contextEdit } from "./entries/context-edit.ts";
import type { Entry } from "./entry.ts";
import { fieldText } from "./plain-text.ts";

/** An entry in a drawing of shapes: its id, and what it does to others. What it says is left to `DrawOptions.describe`. */
export function describeEntry(entry: Entry): string {
  const { id } = entry;
  if (compaction.is(entry)) {
    return entry.firstKeptEntryId === id
      ? `${id} (compaction, keeps nothing)`
      : `${id} (compaction, keeps from ${entry.firstKeptEntryId})`;
  }
  if (branchSummary.is(entry)) return `${id} (summary of ${fieldText(entry.fromId) || "a branch"})`;
  if (contextEdit.is(entry))
    return `${id} (${entry.replacement === null ? "leaves out" : "replaces"} ${entry.targetId})`;
  return id;
}
