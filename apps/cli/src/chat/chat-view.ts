import type { Agent, AgentEvent } from "@espalier/agent";
import type { Session } from "@espalier/engine";
import { type AssistantMessage, type Entry, messageText, type ToolCallBlock } from "@espalier/session-tree";
import { formatCost, formatCount, formatMany } from "../numbers.ts";
import type { Colours } from "../shell.ts";
import { cutLine, plainLine, plainText } from "../text.ts";

/** Columns of a tool call's one line. */
const CALL_WIDTH = 100;

type EventOf<Type extends AgentEvent["type"]> = Extract<AgentEvent, { type: Type }>;

/** Which session this is. */
export function viewGreeting({ name, file, leafId }: Session, colours: Colours): string {
  const title = plainLine(name ?? (leafId === null ? "A new session" : "A session without a name"));
  return `${colours.bold(title)} · /help lists the commands.\n${colours.dim(file)}`;
}

/** A call and what came of it, as one line. */
export function viewCall({ call, result }: EventOf<"tool_end">, colours: Colours): string {
  const text = plainText(messageText(result)).trimEnd();
  const lines = text === "" ? "nothing" : formatMany(text.split("\n").length, "line");
  const line = `${callLine(call)} · ${result.isError ? plainLine(text) : lines}`;
  return result.isError ? colours.red(`✗ ${cutLine(line, CALL_WIDTH)}`) : colours.dim(`• ${line}`);
}

/** A call: its name, and what it was given. */
function callLine({ name, arguments: given }: ToolCallBlock): string {
  const values = Object.entries(given ?? {}).map(
    ([key, value]) => `${key}=${typeof value === "string" ? value : JSON.stringify(value)}`,
  );
  return cutLine(plainLine(`${name} ${values.join(" ")}`), CALL_WIDTH - 20);
}

/** What is said of how an answer ended; undefined where it came to its end. */
export function viewEnd({ stopReason, errorMessage }: AssistantMessage, colours: Colours) {
  if (stopReason === "aborted") return colours.dim("(aborted)");
  if (stopReason === "length") return colours.yellow("(cut off at the longest answer there may be)");
  if (stopReason !== "error") return undefined;
  const why = plainLine(toldBy(errorMessage ?? "The model failed without a word."));
  return `${colours.red(why)} ${colours.dim("(/continue asks again)")}`;
}

/** The words of a provider with its sentence alone, instead of `{"error":{"message":"…"}}`. */
export const toldBy = (words: string): string =>
  words.replace(/\{.*?"message":"((?:[^"\\]|\\.)*)".*\}/s, (_, said: string) =>
    said.replace(/\\(.)/gs, "$1"),
  );

/** What is said of a summary that no model wrote although one was asked. */
export const EXTRACTIVE =
  "The summary was made from the messages themselves: the model did not write one that could be used.";

/** Whether the summary of a compaction or of a branch was made without a model. */
export const isExtractive = (entry: Entry | undefined): boolean =>
  (entry as { details?: { source?: unknown } } | undefined)?.details?.source === "extractive";

/** What is said of a compaction that came by itself. */
export function viewAutomatic({ tokensBefore, tokensAfter, messagesRemoved }: EventOf<"compact_done">) {
  return `Session compacted: ${tokensBefore} → ${tokensAfter} tokens (removed ${messagesRemoved} messages)`;
}

export function viewOffloaded({ offloadedCount, freedTokens }: EventOf<"offload_done">): string {
  return `Moved ${formatMany(offloadedCount, "tool result")} to files, freed ${formatCount(freedTokens)} tokens`;
}

/** One line: the model, how much of its window is used, what the session has cost on all its branches. */
export function viewFooter({ model, contextTokens, contextWindow }: Agent, cost: number): string {
  const { modelId } = model;
  const share = Math.round((contextTokens / contextWindow) * 100);
  return `${modelId} · ${formatCount(contextTokens)} of ${formatCount(contextWindow)} tokens (${share} %) · ${formatCost(cost)}`;
}

/** What a compaction that was asked for came to. */
interface Compacted {
  success: boolean;
  previousTokens: number;
  currentTokens: number;
  freedTokens: number;
  deletedFiles: readonly string[];
}

/** What `/compact` says; where it failed, why. */
export function viewCompacted(result: Compacted, why: string): string {
  const { success, previousTokens, currentTokens, freedTokens, deletedFiles } = result;
  if (!success) return viewFailed(why);
  if (freedTokens === 0) return "Nothing to compact";
  return [
    `✅ Compacted: ${formatCount(previousTokens)} → ${formatCount(currentTokens)} tokens`,
    `   Freed ${formatCount(freedTokens)} tokens, removed ${deletedFiles.length} offloaded files`,
  ].join("\n");
}

const viewFailed = (why: string): string =>
  `❌ Compaction failed, history unchanged${why === "" ? "" : `\n   ${plainLine(toldBy(why))}`}`;

/** What `/compact` says of an error. */
export function viewCompactionError(error: unknown): string {
  const { code, message } = error as { code?: unknown; message?: unknown };
  return code === "aborted" ? "Compaction aborted, history unchanged" : viewFailed(String(message));
}

/** What is said of a conversation whose last word is no answer. */
const STANDS: Readonly<Record<string, string>> = {
  unsent:
    "The last message was never sent to the model. /continue sends it, /undo takes it back; or say more.",
  "outcome-unknown":
    "The last request was sent, and nothing is known of its answer; it may have been billed. /continue sends it again, /undo takes the message back.",
};

/** What a person should know of how the conversation ended the last time. */
export function viewState({ state: { state, openCalls }, queued }: Agent): string[] {
  const calls = openCalls.length === 1 ? "A tool call was" : `${openCalls.length} tool calls were`;
  return [
    ...(state in STANDS ? [STANDS[state]!] : []),
    ...(openCalls.length > 0 ? [`${calls} interrupted; they are not run again by themselves.`] : []),
    ...(queued.length > 0
      ? [
          `${formatMany(queued.length, "message")} that you typed still wait; they are sent with your next one.`,
        ]
      : []),
  ];
}
