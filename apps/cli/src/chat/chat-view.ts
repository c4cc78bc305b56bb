import type { AgentEvent } from "@espalier/agent";
import type { Session } from "@espalier/engine";
import { type AssistantMessage, messageText, type ToolCallBlock } from "@espalier/session-tree";
import { formatCount } from "../numbers.ts";
import { cutLine, plainLine, plainText } from "../plain-text.ts";
import type { Colours } from "../shell.ts";

/** Columns of a tool call's one line. */
const CALL_WIDTH = 100;

/** What one event of a run looks like; undefined for those that say nothing to a person. */
export function viewEvent(event: AgentEvent, colours: Colours): string | undefined {
  if (event.type === "text") return plainText(event.text);
  if (event.type === "tool_start") return `\n${colours.dim(viewCall(event.call))}\n`;
  if (event.type === "tool_end") {
    const { isError } = event.result;
    const text = cutLine(plainLine(messageText(event.result)), CALL_WIDTH);
    return `${isError ? colours.red(`  ✗ ${text}`) : colours.dim(`  ${text}`)}\n`;
  }
  if (event.type === "queued") return `${colours.dim(`(waits: ${event.waiting})`)}\n`;
  if (event.type === "answer") return viewEnd(event.message, colours);
  if (event.type === "retry") return `${colours.dim("(the request was too long; it is sent again)")}\n`;
  if (event.type === "offload_done") return `${colours.dim(viewOffloaded(event))}\n`;
  return undefined;
}

/** What is said of a compaction that came by itself. */
export function viewAutomatic(event: Extract<AgentEvent, { type: "compact_done" }>): string {
  const { tokensBefore, tokensAfter, messagesRemoved } = event;
  return `Session compacted: ${tokensBefore} → ${tokensAfter} tokens (removed ${messagesRemoved} messages)`;
}

function viewOffloaded({
  offloadedCount,
  freedTokens,
}: Extract<AgentEvent, { type: "offload_done" }>): string {
  return `Moved ${offloadedCount} tool results to files, freed ${formatCount(freedTokens)} tokens`;
}

/** A call as one line: its name, and what it was given. */
function viewCall({ name, arguments: given }: ToolCallBlock): string {
  const values = Object.entries(given ?? {}).map(
    ([key, value]) => `${key}=${typeof value === "string" ? value : JSON.stringify(value)}`,
  );
  return cutLine(plainLine(`• ${name} ${values.join(" ")}`), CALL_WIDTH);
}

function viewEnd({ stopReason, errorMessage }: AssistantMessage, colours: Colours): string {
  if (stopReason === "aborted") return `\n${colours.dim("(aborted)")}\n`;
  if (stopReason === "error")
    return `\n${colours.red(plainLine(errorMessage ?? "The model failed without a word."))}\n`;
  return "\n";
}

/** The line below an answer: the model, how much of its window is used, what the path has cost. */
export function viewFooter(session: Session, model: { modelId: string; contextWindow: number }): string {
  const { tokens } = session.context;
  const share = Math.round((tokens / model.contextWindow) * 100);
  return `${model.modelId} · ${formatCount(tokens)} of ${formatCount(model.contextWindow)} tokens (${share} %) · $${costOf(session).toFixed(4)}`;
}

/** What the answers and summaries of a session have cost, in US dollars, over all branches: every call once. */
function costOf(session: Session): number {
  let total = 0;
  for (const entry of session.tree.entries()) {
    const { usage, message } = entry as { usage?: Cost; message?: { usage?: Cost } };
    const cost = (message?.usage ?? usage)?.cost?.total;
    if (typeof cost === "number") total += cost;
  }
  return total;
}

interface Cost {
  cost?: { total?: number };
}

/** What a compaction that was asked for came to. */
export interface Compacted {
  success: boolean;
  previousTokens: number;
  currentTokens: number;
  freedTokens: number;
  deletedFiles: readonly string[];
}

/** What `/compact` says. */
export function viewCompacted(result: Compacted): string {
  const { success, previousTokens, currentTokens, freedTokens, deletedFiles } = result;
  if (!success) return COMPACTION_FAILED;
  if (freedTokens === 0) return "Nothing to compact";
  return [
    `✅ Compacted: ${formatCount(previousTokens)} → ${formatCount(currentTokens)} tokens`,
    `   Freed ${formatCount(freedTokens)} tokens, removed ${deletedFiles.length} offloaded files`,
  ].join("\n");
}

export const COMPACTION_FAILED = "❌ Compaction failed, history unchanged";
