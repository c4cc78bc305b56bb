import {
  type CompactionPlan,
  type OffloadPlan,
  type Policy,
  type PolicySituation,
  type SummaryStyle,
  thresholdOf,
  trustedTokens,
} from "@espalier/compaction";
import { type Entry, estimateTokens, messageText } from "@espalier/session-tree";
import { COMPRESSED_HISTORY_HEADING } from "./compressed-history.ts";
import { WHOLE_RESULTS_FIRST } from "./generate-summary.ts";
import { planKeepingNewest } from "./keep-newest.ts";
import { offloadIfNeeded } from "./offload-if-needed.ts";
import { checkOffloadSettings, type OffloadSettings, OUTPUT_MARGIN } from "./offload-settings.ts";
import { contentFor, originalText } from "./offloaded-entries.ts";
import {
  COMPACT_SUMMARY_SECTIONS,
  COMPACT_SUMMARY_TASK,
  compactSummaryPrompt,
} from "./prompts/compact-summary.ts";
import { offloadedPaths } from "./restore-offloaded-content.ts";

/**
 * Moves large tool results to files first, and compacts only when that frees too little (origins 003): both before a
 * request goes out. What a compaction summarises is read back from the files.
 *
 * @throws PolicyError `settings`
 */
export function offload(settings: Partial<OffloadSettings> = {}): Policy {
  const checked = checkOffloadSettings(settings);
  const { preserveCount, targetTokens, triggerTokens, retryCount } = checked;
  const style: SummaryStyle = {
    systemPrompt: compactSummaryPrompt(targetTokens),
    instructions: COMPACT_SUMMARY_TASK,
    sections: COMPACT_SUMMARY_SECTIONS,
    toolResultLimits: WHOLE_RESULTS_FIRST,
    maxOutputTokens: Math.floor(targetTokens * OUTPUT_MARGIN),
    attempts: retryCount,
    heading: COMPRESSED_HISTORY_HEADING,
    ...(checked.model ? { model: checked.model } : {}),
  };
  return {
    name: "offload",
    judgedAt: "request",
    estimate: estimateTokens,
    judge(situation) {
      const { freedTokens, stillExceedsThreshold } =
        situation.offloaded ?? planOffload(situation, checked, () => "");
      return stillExceedsThreshold && freedTokens < triggerTokens ? "threshold" : undefined;
    },
    offload(situation, pathFor) {
      const plan = planOffload(situation, checked, pathFor);
      return plan.offloadedCount > 0 || plan.stillExceedsThreshold ? plan : undefined;
    },
    plan(situation, options) {
      const plan = planKeepingNewest(preserveCount, situation, { ...options, style });
      return plan.eligible ? withFilesToRead(plan) : plan;
    },
  };
}

/** What would be moved out of a context as it is now. */
function planOffload(
  { context, path, settings, overheadTokens }: PolicySituation,
  { offloadThreshold, offloadMinTokens }: OffloadSettings,
  pathFor: (text: string) => string,
): OffloadPlan {
  const byId = new Map<string, Entry>(path.map((entry) => [entry.id, entry]));
  const { files, ...result } = offloadIfNeeded(context.messages, {
    // A threshold of its own never takes the room that is reserved for the answer.
    offloadThreshold: Math.min(offloadThreshold ?? Number.POSITIVE_INFINITY, thresholdOf(settings)),
    offloadMinTokens,
    pathFor,
    tokens: trustedTokens(context, overheadTokens),
    // A result that an edit has shortened goes to its file whole, as the log has it.
    originalOf: (message, index) => originalText(byId.get(context.sources[index]!)) ?? messageText(message),
  });
  const { offloadedCount, freedTokens, stillExceedsThreshold } = result;
  return {
    files: files.map(({ path: file, text }) => ({ path: file, text })),
    edits: files.map(({ index, path: file }) => ({
      targetId: context.sources[index]!,
      replacement: { content: contentFor(file) },
    })),
    offloadedCount,
    freedTokens,
    stillExceedsThreshold,
  };
}

function withFilesToRead(plan: CompactionPlan & { eligible: true }): CompactionPlan {
  const { previousSummary } = plan;
  const readBack = offloadedPaths([...plan.messagesToSummarize, ...plan.turnPrefixMessages]);
  return {
    ...plan,
    ...(readBack.length > 0 ? { readBack } : {}),
    ...(previousSummary?.startsWith(COMPRESSED_HISTORY_HEADING)
      ? { previousSummary: previousSummary.slice(COMPRESSED_HISTORY_HEADING.length) }
      : {}),
  };
}
