import { planBranchSummary } from "@espalier/branch-summary";
import { branchSummary } from "@espalier/session-tree";
import { type BranchSummaryRequest, summarizeBranch } from "./branch-summary-request.ts";
import { EngineError } from "./engine-error.ts";
import type { SessionState } from "./session-state.ts";

export interface MergeOptions extends Omit<BranchSummaryRequest, "summarize"> {
  /** Where the conclusion is brought; default the leaf. */
  into?: string;
}

export interface MergeResult {
  /** The branch summary that holds the conclusion. */
  entryId: string;
  leafId: string | null;
}

/** Brings the conclusion of another branch here: a branch summary under the leaf that says where it is from. */
export async function mergeBranch(
  session: SessionState,
  fromId: string,
  options: MergeOptions = {},
): Promise<MergeResult> {
  const { core } = session;
  const from = core.placeOf(fromId);
  const into = options.into === undefined ? core.leafId : core.placeOf(options.into);
  const already = core
    .getBranch(into)
    .find((entry) => branchSummary.is(entry) && entry.fromId === from && isMerge(entry.details));
  if (already) return { entryId: already.id, leafId: core.leafId };
  const plan = planBranchSummary(core.tree, from, into);
  const signal = options.signal ?? new AbortController().signal;
  const summary = await summarizeBranch(
    session,
    plan,
    {},
    { ...options, summarize: true, signal, purpose: "merge" },
  );
  if (!summary || from === null) {
    throw new EngineError(
      "nothing-to-merge",
      `The branch of ${JSON.stringify(fromId)} has nothing that is not here already.`,
    );
  }
  const merge = { commonAncestorId: plan.commonAncestorId, entryIds: plan.entries.map(({ id }) => id) };
  const draft = branchSummary.of({
    parentId: into,
    fromId: from,
    ...summary,
    details: { ...summary.details, merge },
  });
  const [entry] = await core.append(draft);
  return { entryId: entry!.id, leafId: core.leafId };
}

const isMerge = (details: unknown): boolean =>
  typeof details === "object" && details !== null && "merge" in details;
