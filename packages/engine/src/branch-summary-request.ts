import {
  type BeforeForkAnswer,
  type BranchSummaryPlan,
  type BranchSummaryProposal,
  generateBranchSummary,
  planBranchSummary,
  prepareBranchEntries,
  sessionBeforeFork,
} from "@espalier/branch-summary";
import { omittedEntries } from "@espalier/compaction";
import type { Decision } from "@espalier/extensions";
import type { Usage } from "@espalier/session-tree";
import { fileLists, recordedFiles, type Summarizer, SummarizerError, soundUsage } from "@espalier/summarizer";
import { type BilledWork, ownerAsked } from "./billing.ts";
import { situationOf, toolsOf } from "./compaction-request.ts";
import type { ActOptions, SessionState } from "./session-state.ts";
import { DEFAULT_CONCURRENCY, EXTRACTIVE, summarizerChain } from "./summarizer-chain.ts";

/** Whether a branch that is left is summarised, by whom, and with what in mind. */
export interface BranchSummaryRequest extends ActOptions {
  /** Whether what is left behind is told where one arrives. Default false. */
  summarize?: boolean;
  /** What the summary shall attend to. */
  instructions?: string;
  /** True: `instructions` stand in place of the prompt. Default false: they are added to it. */
  replaceInstructions?: boolean;
  /** Writes this summary. Default: the session's. */
  summarizer?: Summarizer;
  /** Whether the extractive summarizer steps in; see `SessionOptions.fallback`. */
  fallback?: boolean;
}

/**
 * The plan for the branch that is left; an empty one where nobody reads what is on it: no summary is asked for, and no
 * extension either. A branch may be longer than what fits into memory.
 */
export function planLeftBranch(
  { core, host }: SessionState,
  targetId: string | null,
  { summarize = false }: BranchSummaryRequest,
): BranchSummaryPlan {
  if (summarize || host.has(sessionBeforeFork)) return planBranchSummary(core.tree, core.leafId, targetId);
  return { entries: [], commonAncestorId: null, hasSomethingToTell: false };
}

/** Reports the branch summary of an extension that is not written: no summary was asked for, or the branch says nothing. */
export function reportUnusedSummary(
  { host }: SessionState,
  { answer, owners }: Decision<BeforeForkAnswer>,
  { hasSomethingToTell }: BranchSummaryPlan,
  { summarize = false }: BranchSummaryRequest,
): void {
  if (!answer.summary || (summarize && hasSomethingToTell)) return;
  const hook = sessionBeforeFork.name;
  const by = owners.summary ?? [];
  const why = summarize
    ? "what is left behind says nothing to summarize"
    : "no summary was asked for (`summarize`, on the command line `--summarize`)";
  const message = `The summary that ${by.join(", ")} gave in ${hook} was not written: ${why}.`;
  host.report({ kind: "unused-answer", owners: by, hook, message });
}

/** The fields of a branch summary's entry. */
export interface BranchSummaryFields {
  summary: string;
  details: Record<string, unknown>;
  usage?: Usage;
  fromHook?: boolean;
}

/**
 * For what a provider is asked, in terms of what it bills.
 * @param owners the extensions that wrote the summary; undefined where the core has it made
 */
export function branchWork(
  session: SessionState,
  { summarizer }: BranchSummaryRequest,
  owners?: readonly string[],
): BilledWork {
  const asked = owners ? ownerAsked(owners) : (summarizer ?? session.options.summarizer ?? EXTRACTIVE);
  return { kind: "branch_summary", asked: () => asked };
}

/** What is thrown when the caller's signal fires before anything is in the log. */
export const abortedAct = (what: string) => new SummarizerError("aborted", `The ${what} was aborted.`);

/**
 * The summary of what is left behind: an extension's, or the core's; undefined when none was asked for, or there is
 * nothing to tell. Writes nothing.
 *
 * @throws SummarizerError with all that was billed
 */
export async function summarizeBranch(
  session: SessionState,
  plan: BranchSummaryPlan,
  { summary: proposal, instructions, replaceInstructions }: Partial<BeforeForkAnswer>,
  options: BranchSummaryRequest & { signal: AbortSignal; purpose?: "branch" | "merge" },
): Promise<BranchSummaryFields | undefined> {
  if (!options.summarize || !plan.hasSomethingToTell) return undefined;
  const covered = { firstEntryId: plan.entries[0]!.id, lastEntryId: plan.entries.at(-1)!.id };
  if (proposal) return proposed(session, plan, proposal, covered);
  const named = options.summarizer ?? session.options.summarizer;
  const fallback = options.fallback ?? session.options.fallback ?? named === undefined;
  const { contextWindow, reserveTokens } = situationOf(session, {}).settings;
  const { concurrency = DEFAULT_CONCURRENCY } = session.options;
  const { signal } = options;
  // An extension that replaces the prompt replaces what the caller put there.
  const replacing = replaceInstructions
    ? instructions
    : options.replaceInstructions
      ? options.instructions
      : undefined;
  const attention = [options.instructions, instructions]
    .filter((text) => text && text !== replacing)
    .join("\n\n");
  const started = Date.now();
  const result = await generateBranchSummary(plan.entries, {
    summarizer: summarizerChain(session, named ?? EXTRACTIVE, { fallback, concurrency, signal }),
    signal,
    concurrency,
    tools: toolsOf(session),
    contextWindow,
    reserveTokens,
    ...(options.purpose ? { purpose: options.purpose } : {}),
    ...(attention ? { customInstructions: attention } : {}),
    ...(replacing ? { replaceInstructions: replacing } : {}),
    ...(options.onProgress ? { onProgress: options.onProgress } : {}),
  });
  const { summary, usage, readFiles, modifiedFiles, source, model, omitted, sources, dropped } = result;
  const { missingSections } = result;
  const details = {
    readFiles,
    modifiedFiles,
    source,
    model,
    covered,
    durationMs: Date.now() - started,
    omitted: omittedEntries(omitted, sources, dropped) ?? null,
    ...(missingSections ? { missingSections } : {}),
  };
  return { summary, details, ...(usage ? { usage } : {}) };
}

/** What an extension wrote; the files that the branch touched join those it recorded. */
function proposed(
  session: SessionState,
  { entries }: BranchSummaryPlan,
  { summary, details, usage }: BranchSummaryProposal,
  covered: object,
): BranchSummaryFields {
  const { fileOps } = prepareBranchEntries(entries, undefined, toolsOf(session));
  const own = typeof details === "object" && details !== null && !Array.isArray(details) ? details : {};
  const lists = fileLists(recordedFiles({ summary, details: own }, fileOps));
  return {
    summary,
    details: { covered, ...own, ...lists, source: "extension" },
    ...(usage ? { usage: soundUsage(usage) } : {}),
    fromHook: true,
  };
}
