import { planBranchSummary, sessionBeforeFork, sessionNavigate } from "@espalier/branch-summary";
import { branchSummary, label, leaf, type NewEntry, promptText } from "@espalier/session-tree";
import { type BranchSummaryRequest, summarizeBranch } from "./branch-summary-request.ts";
import { contextForHandlers } from "./context-for-handlers.ts";
import { EngineError } from "./engine-error.ts";
import type { SessionState } from "./session-state.ts";
import { lastAct } from "./undo.ts";

export interface NavigateOptions extends BranchSummaryRequest {
  /** A label for the place arrived at. */
  label?: string;
}

/** Where a navigation led. */
export interface NavigateResult {
  leafId: string | null;
  /** The branch summary that was written; null when there was none to write. */
  summaryEntryId: string | null;
  /** The text of the user message one went to, to be written anew; null for any other entry. */
  editorText: string | null;
  /** True when an extension forbade it; nothing has changed then. */
  cancelled: boolean;
}

/**
 * Moves the leaf: where to, what is left behind, what extensions say to it, the summary, and one append that holds all
 * of it. A summary that fails or is aborted leaves everything as it was.
 */
export async function navigate(
  session: SessionState,
  targetId: string | null,
  options: NavigateOptions = {},
): Promise<NavigateResult> {
  const { core, host } = session;
  const oldLeafId = core.leafId;
  const { placeId, editorText } = destinationOf(session, targetId);
  const plan = planBranchSummary(core.tree, oldLeafId, targetId);
  const signal = options.signal ?? new AbortController().signal;
  const decision = await host.decide(
    sessionBeforeFork,
    {
      kind: "navigate",
      targetId,
      oldLeafId,
      commonAncestorId: plan.commonAncestorId,
      entriesToSummarize: plan.entries,
      userWantsSummary: options.summarize ?? false,
      signal,
    },
    contextForHandlers(session, signal),
  );
  if (decision.cancelled || decision.aborted)
    return { leafId: core.leafId, summaryEntryId: null, editorText: null, cancelled: true };
  const summary = await summarizeBranch(session, plan, decision.answer, { ...options, signal });
  const labelText = options.label ?? decision.answer.label;
  const entries: NewEntry[] = [];
  if (summary) entries.push(branchSummary.of({ parentId: placeId, fromId: oldLeafId ?? "", ...summary }));
  else if (placeId !== oldLeafId) entries.push(leaf.of({ parentId: placeId, targetId: placeId }));
  const [arrived] = await core.append(entries);
  const summaryEntryId = summary ? arrived!.id : null;
  const labelled = summaryEntryId ?? targetId;
  if (labelText && labelled !== null) await core.append(label.of({ targetId: labelled, label: labelText }));
  const event = {
    oldLeafId,
    newLeafId: core.leafId,
    summaryEntryId,
    fromExtension: summary?.fromHook ?? false,
  };
  await host.notify(sessionNavigate, event, contextForHandlers(session));
  return { leafId: core.leafId, summaryEntryId, editorText, cancelled: false };
}

/** Where going to an entry leads: before a message that can be written anew, else to the entry itself. */
function destinationOf(
  { core }: SessionState,
  targetId: string | null,
): { placeId: string | null; editorText: string | null } {
  if (targetId === null) return { placeId: null, editorText: null };
  const { tree } = core;
  const row = tree.row(targetId);
  const editorText = promptText(tree.entryAt(row));
  const placeId = core.placeOf(editorText === null ? targetId : tree.parentIdAt(row));
  return { placeId, editorText };
}

/** Takes back the last act; see `lastAct`. */
export async function undo(session: SessionState): Promise<NavigateResult> {
  const { core } = session;
  const act = lastAct(core.tree, core.leafId);
  if (!act) {
    throw new EngineError(
      "nothing-to-undo",
      "There is nothing to take back: no prompt on this path and no navigation before it.",
    );
  }
  const targetId = core.placeOf(act.backTo);
  await core.append(leaf.of({ parentId: targetId, targetId, undoes: act.entryId }));
  return { leafId: core.leafId, summaryEntryId: null, editorText: act.editorText, cancelled: false };
}
