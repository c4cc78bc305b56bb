import { hasSomethingToTell, planBranchSummary } from "@espalier/branch-summary";
import { branchSummary, createId, type Entry, isOnPath, leaf, type NewEntry } from "@espalier/session-tree";
import { accounted } from "./billing.ts";
import {
  abortedAct,
  type BranchSummaryRequest,
  branchWork,
  summarizeBranch,
} from "./branch-summary-request.ts";
import { branchWentOn, EngineError } from "./engine-error.ts";
import { refuseReadOnly } from "./refuse-read-only.ts";
import type { SessionState } from "./session-state.ts";

/** Where a conclusion is brought, and how it is summarised. */
export interface MergeOptions extends Omit<BranchSummaryRequest, "summarize"> {
  /** Where the conclusion is brought; default the leaf. For any other place the leaf stays where it is. */
  into?: string;
}

/** Where a conclusion was brought to. */
export interface MergeResult {
  /** The branch summary that holds the conclusion. */
  entryId: string;
  leafId: string | null;
}

/** Where a conclusion is from, in the `details.merge` of its branch summary. */
interface MergeProvenance {
  commonAncestorId: string | null;
  /** The entries it tells of. */
  entryIds: string[];
}

/**
 * Brings the conclusion of another branch here: a branch summary that says where it is from. What was merged here
 * before is not told again; merging the same leaf again writes nothing.
 *
 * @throws EngineError `nothing-to-merge`; SummarizerError
 */
export async function mergeBranch(
  session: SessionState,
  fromId: string,
  options: MergeOptions = {},
): Promise<MergeResult> {
  const { core } = session;
  await core.load();
  const from = core.placeOf(fromId);
  const into = options.into === undefined ? core.leafId : core.placeOf(options.into);
  const merges = core.getBranch(into).flatMap(mergeOf);
  const already = merges.find((merge) => merge.fromId === from);
  if (already) return { entryId: already.entryId, leafId: core.leafId };
  const told = new Set(merges.flatMap(({ entryIds }) => entryIds));
  const { commonAncestorId, entries } = planBranchSummary(core.tree, from, into);
  const left = entries.filter(({ id }) => !told.has(id));
  const plan = { entries: left, commonAncestorId, hasSomethingToTell: hasSomethingToTell(left) };
  if (from === null || !plan.hasSomethingToTell) {
    throw new EngineError(
      "nothing-to-merge",
      `The branch of ${JSON.stringify(fromId)} has nothing that is not here already.`,
    );
  }
  refuseReadOnly(session);
  const { signal = new AbortController().signal } = options;
  return accounted(session, branchWork(session, options), async (bill) => {
    const asked = { ...options, summarize: true, signal, purpose: "merge" as const };
    const summary = await summarizeBranch(session, plan, {}, asked);
    bill(summary?.usage);
    const merge: MergeProvenance = { commonAncestorId, entryIds: left.map(({ id }) => id) };
    const entryId = createId();
    const details = { ...summary!.details, merge };
    const { leafId } = core;
    const parentId = options.into === undefined ? hereAfter(session, into) : into;
    const entries: NewEntry[] = [
      branchSummary.of({ id: entryId, parentId, fromId: from, ...summary!, details }),
    ];
    // To go elsewhere and back is no act of its own: an undo passes over both.
    if (parentId !== leafId) entries.push(leaf.of({ parentId: leafId, targetId: leafId, undoes: entryId }));
    await session.appendChecked(entries, () => {
      if (signal.aborted) throw abortedAct("merge");
      if (core.leafId !== leafId) throw branchWentOn();
    });
    return { entryId, leafId: core.leafId };
  });
}

/** The leaf, if the path that a conclusion was made for only grew meanwhile. */
function hereAfter({ core }: SessionState, into: string | null): string | null {
  const { leafId, tree } = core;
  const isHere = into === null || (leafId !== null && isOnPath(tree, tree.row(into), tree.row(leafId)));
  if (!isHere) throw branchWentOn();
  return leafId;
}

/** A merge that stands on a path: which leaf was brought here, and what was told of it. */
function mergeOf(entry: Entry): { entryId: string; fromId: string; entryIds: readonly string[] }[] {
  if (!branchSummary.is(entry)) return [];
  const { merge } = (entry.details ?? {}) as { merge?: Partial<MergeProvenance> };
  if (typeof merge !== "object" || merge === null) return [];
  const entryIds = Array.isArray(merge.entryIds) ? merge.entryIds : [];
  return [{ entryId: entry.id, fromId: entry.fromId, entryIds }];
}
