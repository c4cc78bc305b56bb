import { type Entry, isCustom, isMessage, type ToolCallBlock, toolCalls } from "@espalier/session-tree";

/** The `customType` of the mark that a request is about to go out. */
export const SENT = "espalier.sent";

/**
 * Where a conversation stands at the end of a path.
 *
 * - `idle`: the last word was an answer, or nobody said anything
 * - `never-sent`: the user's last words never went out
 * - `outcome-unknown`: a request went out, and nothing is known of its answer: it may have been billed
 * - `interrupted-calls`: an answer asked for tools, and not all of them gave a result
 * - `failed`: the last answer failed or was aborted
 */
export interface TurnState {
  state: "idle" | "never-sent" | "outcome-unknown" | "interrupted-calls" | "failed";
  /** Calls of the last answer that have no result. */
  openCalls: ToolCallBlock[];
}

/** Tells from the end of a path alone where the conversation stands: what a restart has to know. */
export function turnState(path: readonly Entry[]): TurnState {
  const answered = new Set<string>();
  let sent = false;
  for (let at = path.length - 1; at >= 0; at--) {
    const entry = path[at]!;
    if (isCustom(entry, SENT)) sent = true;
    else if (isMessage(entry, "toolResult")) answered.add(entry.message.toolCallId);
    else if (isMessage(entry, "assistant")) {
      const { stopReason } = entry.message;
      if (stopReason === "error" || stopReason === "aborted")
        return { state: sent ? "outcome-unknown" : "failed", openCalls: [] };
      const openCalls = toolCalls(entry.message).filter(({ id }) => !answered.has(id));
      if (openCalls.length > 0) return { state: "interrupted-calls", openCalls };
      if (sent) return { state: "outcome-unknown", openCalls };
      return { state: answered.size > 0 ? "never-sent" : "idle", openCalls };
    } else if (isMessage(entry, "user"))
      return { state: sent ? "outcome-unknown" : "never-sent", openCalls: [] };
  }
  return { state: "idle", openCalls: [] };
}
