import { type CompactionSettings, isContextOverflow, shouldCompact } from "@espalier/compaction";
import type { AssistantMessage } from "@espalier/session-tree";

/** What follows an answer. */
export type AfterAnswer = "nothing" | "overflow" | "threshold";

/**
 * The decision after each answer, in this order: aborted → nothing; the request was too long for the model, by what the
 * provider said or counted, and it was the current model → overflow (compact; an answer that did not come to its end is
 * left out, and the request sent once more); failed otherwise → nothing; over the threshold → compact, no retry.
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

/** Whether an answer came to its end. One that did stands, however long its request was. */
export const isWhole = ({ stopReason }: AssistantMessage): boolean =>
  stopReason === "stop" || stopReason === "toolUse";
