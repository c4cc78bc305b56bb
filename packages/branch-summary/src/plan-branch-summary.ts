import type { Entry, Tree } from "@espalier/session-tree";
import { collectEntriesForBranchSummary } from "./collect-entries.ts";
import { isTelling, toldOn } from "./said-on.ts";

/** What a summary of a branch would tell of. */
export interface BranchSummaryPlan {
  /** Entries of the branch below the common ancestor, oldest first. */
  entries: Entry[];
  commonAncestorId: string | null;
  /** False when the branch says nothing of its own: it is empty, or has labels, settings or a compaction alone. */
  hasSomethingToTell: boolean;
}

/** Plans the summary of the branch that is left when one goes from a leaf to an entry. Pure. */
export function planBranchSummary(
  session: Tree | { readonly tree: Tree },
  oldLeafId: string | null,
  targetId: string | null,
): BranchSummaryPlan {
  const { entries, commonAncestorId } = collectEntriesForBranchSummary(session, oldLeafId, targetId);
  return { entries, commonAncestorId, hasSomethingToTell: hasSomethingToTell(entries) };
}

/** Whether entries of a branch say anything of their own. */
export function hasSomethingToTell(entries: readonly Entry[]): boolean {
  return toldOn(entries).some(isTelling);
}
