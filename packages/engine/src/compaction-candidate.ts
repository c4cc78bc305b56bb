import {
  CompactionError,
  type CompactionProposal,
  compact,
  joinSummary,
  readSpan,
} from "@espalier/compaction";
import { branchSummary, type Usage } from "@espalier/session-tree";
import {
  charsEstimator,
  collectFileOps,
  type FileLists,
  type FileOps,
  fileLists,
  isExtractive,
  recordedFiles,
  type Summarizer,
  soundUsage,
} from "@espalier/summarizer";
import { toolsOf } from "./compaction-request.ts";
import type { CompactionCandidate, CompactionRun } from "./compaction-run.ts";
import { draftCompaction } from "./draft-compaction.ts";
import { withFilesRead } from "./offloaded-files.ts";
import { pinnedTexts } from "./pins.ts";
import { refuseStale } from "./refuse-stale.ts";
import { DEFAULT_CONCURRENCY, EXTRACTIVE, summarizerChain } from "./summarizer-chain.ts";

/**
 * What an extension wrote. Files of the span join those it recorded, and pins that its summary takes out of the
 * context are added to it, so that both survive it.
 */
export function proposedCandidate(run: CompactionRun, proposal: CompactionProposal): CompactionCandidate {
  const { plan, compactionId, session } = run;
  const { summary, usage, details, tokensBefore = plan.tokensBefore } = proposal;
  const firstKeptEntryId = proposal.firstKeptEntryId ?? plan.firstKeptEntryId ?? compactionId;
  const { items } = readSpan(session.core.window.entries);
  const from = items.findIndex(({ entry }) => entry.id === firstKeptEntryId);
  const keptIds = new Set((from < 0 ? [] : items.slice(from)).map(({ entry }) => entry.id));
  const pinned = pinnedTexts(session.core).filter(({ id }) => !keptIds.has(id));
  const pins = joinSummary("", { pinned, files: NO_FILES }, plan.settings.contextWindow);
  const own = typeof details === "object" && details !== null && !Array.isArray(details) ? details : {};
  return {
    summary: pins === "" ? summary : `${summary.trimEnd()}\n\n${pins}`,
    firstKeptEntryId,
    source: "extension",
    model: null,
    usage: usage && soundUsage(usage),
    tokensBefore,
    details: { ...own, ...fileLists(filesOf(run, { summary, details: own }, keptIds)) },
    fromHook: true,
  };
}

const NO_FILES: FileLists = { readFiles: [], modifiedFiles: [] };

function filesOf(
  { session }: CompactionRun,
  told: { summary: string; details: object },
  keptIds: ReadonlySet<string>,
): FileOps {
  const { items, previous } = readSpan(session.core.window.entries);
  const fileOps = recordedFiles(told, recordedFiles(previous));
  const covered = items.filter(({ entry }) => !keptIds.has(entry.id));
  for (const { entry } of covered) if (branchSummary.is(entry)) recordedFiles(entry, fileOps);
  return collectFileOps(
    covered.flatMap(({ messages }) => messages),
    toolsOf(session),
    fileOps,
  );
}

/**
 * What the summarizer wrote; where that is too large to be of use, the extractive one is tried before giving up.
 *
 * @param named who was chosen; undefined where nobody was, and the extractive one writes it
 * @param bill told what was billed as soon as it is known
 */
export async function summarizedCandidate(
  run: CompactionRun,
  named: Summarizer | undefined,
  instructions: string,
  bill: (usage: Usage | undefined) => void,
): Promise<CompactionCandidate> {
  const { session, options } = run;
  const fallback =
    options.fallback ?? session.options.fallback ?? (named === undefined || run.reason !== "manual");
  const summarizer = named ?? EXTRACTIVE;
  const candidate = await summarizedBy(run, summarizer, instructions, fallback);
  bill(candidate.usage);
  refuseStale(run);
  const problem = isExtractive(summarizer) ? undefined : sizeProblem(run, candidate);
  if (!problem) return candidate;
  if (!fallback) throw new CompactionError("no-smaller", problem, { usage: candidate.usage });
  const extracted = await summarizedBy(run, EXTRACTIVE, instructions, fallback);
  return { ...extracted, usage: candidate.usage };
}

async function summarizedBy(
  run: CompactionRun,
  summarizer: Summarizer,
  instructions: string,
  fallback: boolean,
): Promise<CompactionCandidate> {
  const { plan, session, signal, options, compactionId } = run;
  const { concurrency = DEFAULT_CONCURRENCY } = session.options;
  const parts = plan.historyIds.length > 0 && plan.turnPrefixIds.length > 0 ? 2 : 1;
  const lanes = Math.max(1, Math.floor(concurrency / parts));
  const style = plan.style;
  const result = await compact(await withFilesRead(session, plan), {
    summarizer: summarizerChain(session, summarizer, { fallback, concurrency: lanes, signal, style }),
    signal,
    concurrency,
    ...(instructions ? { customInstructions: instructions } : {}),
    ...(options.onProgress ? { onProgress: options.onProgress } : {}),
  });
  const { summary, source, model, usage, omitted, missingSections, readFiles, modifiedFiles } = result;
  return {
    summary,
    firstKeptEntryId: plan.firstKeptEntryId ?? compactionId,
    source,
    model,
    usage,
    tokensBefore: plan.tokensBefore,
    details: { omitted, readFiles, modifiedFiles, ...(missingSections ? { missingSections } : {}) },
    fromHook: false,
  };
}

/** How much longer than it was asked to be a summary may become, in characters / 4: tokens of prose are longer. */
const LARGEST_EXCESS = 2;

/** Why a summary is too large to be of use; undefined when it is not. */
function sizeProblem(run: CompactionRun, candidate: CompactionCandidate): string | undefined {
  const { plan } = run;
  const most = LARGEST_EXCESS * plan.maxSummaryTokens + plan.summaryTokens;
  const tokens = charsEstimator.text(candidate.summary);
  if (tokens > most)
    return `The summary of ${candidate.source} has ${tokens} tokens, where at most ${plan.maxSummaryTokens} of prose were asked for; nothing was written. Try again, or take another summarizer.`;
  return draftCompaction(run, candidate).problem;
}
