import {
  type BeforeForkAnswer,
  type BranchSummaryPlan,
  generateBranchSummary,
} from "@espalier/branch-summary";
import { DEFAULT_COMPACTION_SETTINGS } from "@espalier/compaction";
import type { Usage } from "@espalier/session-tree";
import { extractiveSummarizer, type Summarizer, SummarizerError } from "@espalier/summarizer";
import type { ActOptions, SessionState } from "./session-state.ts";
import { chainOf } from "./summarizer-chain.ts";
import { billedEntry, showRequests } from "./summary-request.ts";

export interface BranchSummaryRequest extends ActOptions {
  /** Whether what is left behind is told where one arrives. Default false. */
  summarize?: boolean;
  /** What the summary shall attend to. */
  instructions?: string;
  /** Writes this summary. Default: the session's. */
  summarizer?: Summarizer;
  /** Whether the extractive summarizer steps in; see `SessionOptions.fallback`. */
  fallback?: boolean;
}

/** The fields of a branch summary's entry. */
export interface BranchSummaryFields {
  summary: string;
  details: Record<string, unknown>;
  usage?: Usage;
  fromHook?: boolean;
}

/**
 * The summary of what is left behind: an extension's, or the core's; undefined when none was asked for, or there is
 * nothing to tell. Throws a `SummarizerError`; what was billed is then in the log.
 */
export async function summarizeBranch(
  session: SessionState,
  plan: BranchSummaryPlan,
  { summary: proposed, instructions, replaceInstructions }: Partial<BeforeForkAnswer>,
  options: BranchSummaryRequest & { signal: AbortSignal; purpose?: "branch" | "merge" },
): Promise<BranchSummaryFields | undefined> {
  if (!options.summarize || !plan.hasSomethingToTell) return undefined;
  if (proposed) {
    const { summary, details, usage } = proposed;
    return {
      summary,
      details: { source: "extension", ...(details as object | undefined) },
      ...(usage ? { usage } : {}),
      fromHook: true,
    };
  }
  const named = options.summarizer ?? session.options.summarizer;
  const fallback = options.fallback ?? session.options.fallback ?? named === undefined;
  const { contextWindow, reserveTokens } = { ...DEFAULT_COMPACTION_SETTINGS, ...session.options.compaction };
  const attention = [options.instructions, replaceInstructions ? undefined : instructions]
    .filter(Boolean)
    .join("\n\n");
  const onRequest = showRequests(session, options.signal);
  const started = Date.now();
  try {
    const result = await generateBranchSummary(plan.entries, {
      summarizer: chainOf(named ?? extractiveSummarizer(), fallback),
      signal: options.signal,
      contextWindow,
      reserveTokens,
      ...(options.purpose ? { purpose: options.purpose } : {}),
      ...(attention ? { customInstructions: attention } : {}),
      ...(replaceInstructions && instructions ? { replaceInstructions: instructions } : {}),
      ...(options.onProgress ? { onProgress: options.onProgress } : {}),
      ...(onRequest ? { onRequest } : {}),
    });
    const { summary, usage, readFiles, modifiedFiles, source, model, omitted } = result;
    if (options.signal.aborted) throw new SummarizerError("aborted", "The summary was aborted.", { usage });
    const covered = { firstEntryId: plan.entries[0]!.id, lastEntryId: plan.entries.at(-1)!.id };
    const details = {
      readFiles,
      modifiedFiles,
      source,
      model,
      covered,
      durationMs: Date.now() - started,
      omitted: omitted ?? null,
    };
    return { summary, details, ...(usage ? { usage } : {}) };
  } catch (error) {
    const billed = error instanceof SummarizerError ? error.usage : undefined;
    if (billed)
      await session.core.append(billedEntry("branch_summary", named ?? extractiveSummarizer(), billed));
    throw error;
  }
}
