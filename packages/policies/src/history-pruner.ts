import { type ContextMessage, isFailedAnswer } from "@espalier/session-tree";
import { type MessageUnit, messageUnits } from "./message-units.ts";
import { TokenCounter } from "./token-counter.ts";

/** A history after pruning, in order. */
export interface PrunedHistory {
  kept: ContextMessage[];
  removed: ContextMessage[];
  /** Places of the kept messages. */
  keptIndexes: number[];
}

/** The newest tool messages that stay whatever they take (origins 004). */
const RECENT_TOOL_MESSAGES = 5;

/** Selects messages (origins 004). */
export const HistoryPruner = {
  /**
   * Keeps, in this order: system messages, the newest user message, the newest answer, the 5 newest tool messages; then,
   * as far as the budget allows and newest first, other messages, and last of all older tool results with their calls.
   * The first four stay even above the budget. Results of calls that are not in the history always go.
   */
  prune(
    messages: readonly ContextMessage[],
    budgetTokens: number,
    estimate: (message: ContextMessage) => number = TokenCounter.estimate,
  ): PrunedHistory {
    const units = messageUnits(messages, estimate);
    const kept = requiredUnits(units, messages);
    let left = budgetTokens;
    for (const unit of kept) left -= unit.tokens;
    for (const kind of ["single", "calls"] as const) {
      for (const unit of units.toReversed()) {
        if (unit.kind !== kind || kept.has(unit) || unit.tokens > left) continue;
        kept.add(unit);
        left -= unit.tokens;
      }
    }
    const stays = new Set([...kept].flatMap(({ indexes }) => indexes));
    return {
      kept: messages.filter((_, index) => stays.has(index)),
      removed: messages.filter((_, index) => !stays.has(index)),
      keptIndexes: [...stays].sort((a, b) => a - b),
    };
  },
} as const;

function requiredUnits(units: readonly MessageUnit[], messages: readonly ContextMessage[]): Set<MessageUnit> {
  const required = new Set(units.filter(({ kind }) => kind === "system"));
  const unitAt = new Map(units.flatMap((unit) => unit.indexes.map((index) => [index, unit] as const)));
  const require = (index: number) => {
    const unit = unitAt.get(index);
    if (unit && unit.kind !== "orphan") required.add(unit);
  };
  require(messages.findLastIndex(({ role }) => role === "user"));
  require(messages.findLastIndex((message) => message.role === "assistant" && !isFailedAnswer(message)));
  let tools = 0;
  for (let index = messages.length - 1; index >= 0 && tools < RECENT_TOOL_MESSAGES; index--) {
    if (messages[index]!.role !== "toolResult" || unitAt.get(index)?.kind === "orphan") continue;
    require(index);
    tools++;
  }
  return required;
}
