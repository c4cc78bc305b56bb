import { type NavigateEvent, sessionBeforeFork, sessionNavigate } from "@espalier/branch-summary";
import {
  branchSummary,
  createId,
  label,
  leaf,
  type NewEntry,
  pathRows,
  promptText,
} from "@espalier/session-tree";
import { accounted } from "./billing.ts";
import {
  abortedAct,
  type BranchSummaryFields,
  type BranchSummaryRequest,
  branchWork,
  planLeftBranch,
  reportUnusedSummary,
  summarizeBranch,
} from "./branch-summary-request.ts";
import { contextForHandlers } from "./context-for-handlers.ts";
import { branchWentOn, cancelledBy, EngineError } from "./engine-error.ts";
import { restoreFiles } from "./offloaded-files.ts";
import { oneLine } from "./one-line.ts";
import { refuseReadOnly } from "./refuse-read-only.ts";
import type { SessionState } from "./session-state.ts";
import { tellHandlers } from "./tell-handlers.ts";
import { lastAct } from "./undo.ts";

/** Whether what is left behind is told where one arrives, and which label the place gets. */
export interface NavigateOptions extends BranchSummaryRequest {
  /** A label for the place arrived at, as one line; blanks alone are none. */
  label?: string;
}

/** Where a navigation led. */
export interface NavigateResult {
  leafId: string | null;
  /** The branch summary that was written; null when there was none to write. */
  summaryEntryId: string | null;
  /** The text of the user message one went to, to be written anew; null for any other entry. */
  editorText: string | null;
}

/**
 * Moves the leaf: where to, what is left behind, what extensions say to it, the summary, and one append that holds all
 * of it. A summary that fails or is aborted leaves everything as it was.
 *
 * @throws SummarizerError; EngineError `cancelled` for the veto of an extension, `stale` when the branch went on while it was summarised
 */
export async function navigate(
  session: SessionState,
  targetId: string | null,
  options: NavigateOptions = {},
): Promise<NavigateResult> {
  const { core } = session;
  if (options.summarize) refuseReadOnly(session);
  await core.load();
  const oldLeafId = core.leafId;
  const destination = destinationOf(session, targetId);
  const plan = planLeftBranch(session, targetId, options);
  const { signal = new AbortController().signal } = options;
  if (signal.aborted) throw abortedAct("navigation");
  const decision = await session.host.decide(
    sessionBeforeFork,
    {
      kind: "navigate",
      targetId,
      oldLeafId,
      commonAncestorId: plan.commonAncestorId,
      entriesToSummarize: plan.entries,
      userWantsSummary: options.summarize ?? false,
      entryId: targetId ?? rootIdOf(session),
      position: targetId === null || destination.editorText !== null ? "before" : "at",
      ...wishesOf(options),
      signal,
    },
    contextForHandlers(session, signal),
  );
  if (decision.aborted) throw abortedAct("navigation");
  if (decision.cancelled) throw cancelledBy("navigation", decision.cancelled);
  reportUnusedSummary(session, decision, plan, options);
  const labelText = oneLine(options.label ?? decision.answer.label ?? "");
  const arrival = { ...destination, targetId, oldLeafId, labelText, signal };
  return accounted(session, branchWork(session, options, decision.owners.summary), async (bill) => {
    const summary = await summarizeBranch(session, plan, decision.answer, { ...options, signal });
    bill(summary?.usage);
    return arrive(session, arrival, summary);
  });
}

/** The id of the first entry on the leaf's path, found without reading what the path says; empty for a path of none. */
function rootIdOf({ core: { tree, leafId } }: SessionState): string {
  if (leafId === null) return "";
  const [root = -1] = pathRows(tree, tree.row(leafId));
  return root < 0 ? "" : tree.idAt(root);
}

/** What the caller asks for, as far as it was given. */
function wishesOf({ instructions, replaceInstructions, label: text }: NavigateOptions) {
  return {
    ...(instructions ? { customInstructions: instructions } : {}),
    ...(replaceInstructions ? { replaceInstructions } : {}),
    ...(text ? { label: text } : {}),
  };
}

interface Arrival {
  placeId: string | null;
  editorText: string | null;
  targetId: string | null;
  oldLeafId: string | null;
  /** Empty where the place gets no label. */
  labelText: string;
  signal: AbortSignal;
}

/** One append: the summary or the move, then the label. */
async function arrive(
  session: SessionState,
  { placeId, editorText, targetId, oldLeafId, labelText, signal }: Arrival,
  summary: BranchSummaryFields | undefined,
): Promise<NavigateResult> {
  const { core } = session;
  const id = createId();
  const entries: NewEntry[] = [];
  if (summary) entries.push(branchSummary.of({ id, parentId: placeId, fromId: oldLeafId ?? "", ...summary }));
  else if (placeId !== core.leafId) entries.push(leaf.of({ parentId: placeId, targetId: placeId }));
  const labelled = summary ? id : targetId;
  if (labelText && labelled !== null) entries.push(label.of({ targetId: labelled, label: labelText }));
  const check = () => {
    if (signal.aborted) throw abortedAct("navigation");
    if (summary && core.leafId !== oldLeafId) throw branchWentOn();
  };
  check();
  if (entries.length > 0) await session.appendChecked(entries, check);
  const summaryEntryId = summary ? id : null;
  const summaryEntry = summary && core.getEntry(id);
  await arrived(session, {
    oldLeafId,
    summaryEntryId,
    ...(summaryEntry && branchSummary.is(summaryEntry) ? { summaryEntry } : {}),
    fromExtension: summary?.fromHook ?? false,
  });
  return { leafId: core.leafId, summaryEntryId, editorText };
}

/** What follows every move of the leaf: files that the context there refers to, and word to the extensions. */
async function arrived(session: SessionState, event: Omit<NavigateEvent, "newLeafId">): Promise<void> {
  await restoreFiles(session);
  await tellHandlers(session, sessionNavigate, { ...event, newLeafId: session.core.leafId });
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
  await core.load();
  const act = lastAct(core.tree, core.leafId);
  if (!act) {
    throw new EngineError(
      "nothing-to-undo",
      "There is nothing to take back: no prompt, compaction or hiding on this path and no navigation before it.",
    );
  }
  const oldLeafId = core.leafId;
  const targetId = core.placeOf(act.backTo);
  await core.append(leaf.of({ parentId: targetId, targetId, undoes: act.entryId }));
  await arrived(session, { oldLeafId, summaryEntryId: null, fromExtension: false });
  return { leafId: core.leafId, summaryEntryId: null, editorText: act.editorText };
}
