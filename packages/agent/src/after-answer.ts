import { type CompactionSettings, isContextOverflow, shouldCompact } from "@espalier/compaction";
import type { AssistantMessage } from "@espalier/session-tree";

/** What follows an answer. */
export type AfterAnswer = "nothing" | "overflow" | "threshold";

/**
 * The decision after each answer, in this order: aborted → nothing; the provider said that the request was too long,
 * and it was the current model → overflow (leave the answer out, compact, retry once); failed otherwise → nothing;
 * over the threshold → compact, no retry.
 *
 * @param contextTokens size of the context with the answer, as the policy measures it
 */
export function afterAnswer(
  answer: AssistantMessage,
  model: { provider: string; modelId: string },
  contextTokens: number,
  settings: CompactionSettings,
): AfterAnswer {
  if (answer.stopReason === "aborted") return "nothing";
  const isCurrent = answer.provider === model.provider && answer.model === model.modelId;
  if (isCurrent && isContextOverflow(answer, settings.contextWindow)) return "overflow";
  if (answer.stopReason === "error") return "nothing";
  return shouldCompact(contextTokens, settings.contextWindow, settings) ? "threshold" : "nothing";
}
