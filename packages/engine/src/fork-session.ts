import { planBranchSummary, sessionBeforeFork, sessionFork } from "@espalier/branch-summary";
import {
  branchSummary,
  createId,
  type Entry,
  FORMAT_VERSION,
  type ForkPosition,
  forkHeader,
  forkLines,
  label,
  planFork,
} from "@espalier/session-tree";
import { type BranchSummaryRequest, summarizeBranch } from "./branch-summary-request.ts";
import { contextForHandlers } from "./context-for-handlers.ts";
import { EngineError } from "./engine-error.ts";
import type { SessionState } from "./session-state.ts";

export interface ForkOptions extends BranchSummaryRequest {
  /** Whether the fork ends with the entry (`at`, default) or before it. */
  position?: ForkPosition;
  /** Where to keep the fork; by default the store chooses. */
  out?: string;
}

/** The session that was made. */
export interface ForkResult {
  /** Its file, or its address in another store. */
  file: string;
  id: string;
  leafId: string | null;
  /** The text of the user message that the fork stops before; null otherwise. */
  selectedText: string | null;
  /** The summary of what the fork leaves out; null when there is none. */
  summaryEntryId: string | null;
}

/** Copies a path into a session of its own: the same lines, the same ids, and the labels and name in force. */
export async function forkSession(
  session: SessionState,
  entryId: string,
  options: ForkOptions = {},
): Promise<ForkResult> {
  const { core, host } = session;
  const { tree } = core;
  const position = options.position ?? "at";
  const plan = planFork(tree, entryId, position);
  const left = planBranchSummary(tree, core.leafId, plan.leafId);
  const signal = options.signal ?? new AbortController().signal;
  const decision = await host.decide(
    sessionBeforeFork,
    {
      kind: "fork",
      targetId: plan.leafId,
      oldLeafId: core.leafId,
      commonAncestorId: left.commonAncestorId,
      entriesToSummarize: left.entries,
      userWantsSummary: options.summarize ?? false,
      entryId,
      position,
      signal,
    },
    contextForHandlers(session, signal),
  );
  if (decision.aborted) throw new EngineError("cancelled", "The fork was aborted.");
  if (decision.cancelled)
    throw new EngineError("cancelled", `The fork was cancelled by ${decision.cancelled.by}.`);
  const fields = await summarizeBranch(session, left, decision.answer, { ...options, signal });

  const now = new Date().toISOString();
  const added = (entry: Record<string, unknown>, parentId: string | null): Entry =>
    ({ ...entry, id: createId(), parentId, timestamp: now }) as unknown as Entry;
  const summary =
    fields && added({ type: branchSummary.type, fromId: core.leafId ?? "", ...fields }, plan.leafId);
  const leafId = summary?.id ?? plan.leafId;
  // What is in force stands behind the summary, which is the first entry after the copied path.
  const beside = plan.additions.map((entry) => ({ ...entry, parentId: leafId }));
  if (decision.answer.label && leafId !== null)
    beside.push(added({ type: label.type, targetId: leafId, label: decision.answer.label }, leafId));
  const source = core.header ?? {
    type: "session" as const,
    version: FORMAT_VERSION,
    id: "",
    timestamp: now,
    cwd: process.cwd(),
  };
  const header = forkHeader(source, core.log.ref, plan.leafId, now);
  const log = await session.store.create(
    header,
    forkLines(tree, { ...plan, additions: [...(summary ? [summary] : []), ...beside] }),
    options.out,
  );
  await log.close();

  const result = {
    file: log.ref,
    id: header.id,
    leafId,
    selectedText: plan.selectedText,
    summaryEntryId: summary?.id ?? null,
  };
  await host.notify(sessionFork, { entryId, ...result }, contextForHandlers(session));
  return result;
}
