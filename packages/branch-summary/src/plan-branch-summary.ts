import { type Entry, estimateTokens, kindOf, type Tree } from "@espalier/session-tree";
import { collectEntriesForBranchSummary } from "./collect-entries.ts";

/** What a summary of a branch would tell of. */
export interface BranchSummaryPlan {
  /** Entries of the branch below the common ancestor, oldest first. */
  entries: Entry[];
  commonAncestorId: string | null;
  /** False when the branch says nothing worth telling: it is empty, or has labels and settings alone. */
  hasSomethingToTell: boolean;
}

/** Plans the summary of the branch that is left when one goes from a leaf to an entry. Pure. */
export function planBranchSummary(
  session: Tree | { readonly tree: Tree },
  oldLeafId: string | null,
  targetId: string | null,
): BranchSummaryPlan {
  const { entries, commonAncestorId } = collectEntriesForBranchSummary(session, oldLeafId, targetId);
  return { entries, commonAncestorId, hasSomethingToTell: entries.some(tells) };
}

/** A summary that stands on the branch tells too; empty messages do not. */
function tells(entry: Entry): boolean {
  const kind = kindOf(entry.type);
  return (
    !kind.problem?.(entry) && (kind.toMessages?.(entry) ?? []).some((message) => estimateTokens(message) > 0)
  );
}
