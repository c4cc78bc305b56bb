import type { ContextMessage } from "../message.ts";
import { healedContent, healedText } from "./content.ts";
import type { UserBlock } from "./turn.ts";
import { bashExecutionText, branchSummaryText, compactionSummaryText } from "./wrapping.ts";

/**
 * What a message says in the user's name. Nothing for answers, tool results and system messages, which a request
 * carries elsewhere, for runs that were kept out of the context, and for roles that nobody here knows.
 */
export function saidByUser(message: ContextMessage): UserBlock[] {
  switch (message.role) {
    case "user":
    case "custom":
      return healedContent(message);
    case "bashExecution":
      return message.excludeFromContext ? [] : healedText(bashExecutionText(message));
    case "compactionSummary":
      return typeof message.summary === "string" ? healedText(compactionSummaryText(message.summary)) : [];
    case "branchSummary":
      return typeof message.summary === "string" ? healedText(branchSummaryText(message.summary)) : [];
    default:
      return [];
  }
}
