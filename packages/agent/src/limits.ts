import { type CompactionSettings, DEFAULT_COMPACTION_SETTINGS, effectiveWindow } from "@espalier/compaction";
import type { CompactionRequest, Session } from "@espalier/engine";
import {
  type AssistantMessage,
  type ContextMessage,
  type Entry,
  estimateTotal,
  type ToolCallBlock,
  type ToolResultMessage,
} from "@espalier/session-tree";
import { withWindow } from "@espalier/summarizer";
import type { Model } from "./model.ts";
import { definitionOf, type RunToolsOptions, type Tool } from "./tool.ts";

/** The summarizer of an agent. Absent: the session's own. */
export type SummaryWriter = Pick<CompactionRequest, "summarizer" | "fallback">;

/** Limits for compactions of an agent's session. */
export interface Limits extends SummaryWriter {
  settings: CompactionSettings;
  /** Tokens of system prompt and tools, as the policy counts. */
  overheadTokens: number;
}

/**
 * The window is the model's, less where its provider has said so, and so are the summaries, unless the session names
 * another summarizer.
 */
export function limitsOf(
  { session, system = "", tools = [] }: Pick<AgentOptions, "session" | "system" | "tools">,
  model: Model,
): Limits {
  const contextWindow = windowOf(session, model);
  const toolsAdded = tools.map(definitionOf);
  return {
    settings: { ...DEFAULT_COMPACTION_SETTINGS, ...session.options.compaction, contextWindow },
    overheadTokens: session.policy.estimate({ role: "system", content: system, toolsAdded, timestamp: 0 }),
    ...writerOf(session, model),
  };
}

/** Tokens that a model reads: what it says of itself, or less, where its provider said so in this session. */
export const windowOf = ({ window }: Session, model: Model): number =>
  effectiveWindow(model.contextWindow, window.entries, model);

/** The model, where the session names no summarizer. The extractive summarizer is its fallback. */
export function writerOf(session: Session, model: Model): SummaryWriter {
  const { options } = session;
  const { summarizer } = model;
  if (!summarizer || options.summarizer) return {};
  return {
    summarizer: withWindow(summarizer, windowOf(session, model)),
    fallback: options.fallback ?? true,
  };
}

/** Parts of a request that is too long, in tokens. */
export function breakdownOf(session: Session, { settings, overheadTokens }: Limits) {
  const { messages } = session.context;
  const newest = messages.findLast(({ role }) => role === "user");
  return {
    systemAndTools: overheadTokens,
    newestUserMessage: estimateTotal(newest ? [newest] : []),
    context: estimateTotal(messages),
    contextWindow: settings.contextWindow,
  };
}

/** Options of an {@link Agent}. It does not close the session, which its caller owns. */
export interface AgentOptions {
  /** Everything is kept here; extensions, policies and settings are those it was opened with. */
  session: Session;
  /** The model that answers, until `setModel`. */
  model: Model;
  /** Tools that the model can call. Default: none. */
  tools?: readonly Tool[];
  /** The system prompt; a policy may add to it. Default: none. */
  system?: string;
  /** Asked before a tool that writes or runs something; default: such calls are refused. */
  approve?: RunToolsOptions["approve"];
  /** Milliseconds before a request that was too long is sent again. Default 100. */
  overflowRetryDelayMs?: number;
}

/** Limits of one run. */
export interface RunOptions {
  /** Most rounds of tool calls before an answer. Default 50. */
  maxIterations?: number;
}

/** Events of a run, in order. */
export type AgentEvent =
  | { type: "agent_start" }
  /** An entry of the run is in the log: prompts, marks, answers, results, edits. */
  | { type: "entry"; entry: Entry }
  /** A request goes out: how many messages it carries, and its size in tokens as it was judged. */
  | { type: "request"; messages: number; tokens: number }
  /** A piece of the answer, as it streams in; so is the next of the model's thinking. */
  | { type: "text"; text: string }
  | { type: "thinking"; text: string }
  /** The whole answer, a failed or aborted one too, once it is in the log. */
  | { type: "answer"; message: AssistantMessage }
  /** A call begins, and ends with its result, which a refused or failed one has too. */
  | { type: "tool_start"; call: ToolCallBlock }
  | { type: "tool_end"; call: ToolCallBlock; result: ToolResultMessage }
  /** A prompt during a run waits for its turn, with `waiting` texts in all. */
  | { type: "queued"; text: string; waiting: number }
  /** Results were moved to files, to be read there. */
  | { type: "offload_done"; offloadedCount: number; freedTokens: number }
  /** A provider would have refused the request: pictures of so many messages are left out of it and of what follows. */
  | { type: "pictures_left_out"; messages: number; reasons: readonly string[] }
  /** `message` says how full the context is: `Context at 85% - compacting`. */
  | { type: "compact_start"; message: string }
  /** Tokens, and how many messages the summary stands for. */
  | { type: "compact_done"; tokensBefore: number; tokensAfter: number; messagesRemoved: number }
  /** The history is as it was. */
  | { type: "compact_failed"; message: string }
  /** A compaction replaced the list that the model reads: a listener that shows a copy has to rebuild it. */
  | { type: "messages_replaced"; messages: readonly ContextMessage[] }
  /** A request that was too long goes out again, shorter, after so many milliseconds. */
  | { type: "retry"; afterMs: number }
  /** The run is over; null where it was aborted before there was an answer. `messages` are the context it left. */
  | { type: "agent_end"; lastAssistantMessage: AssistantMessage | null; messages: readonly ContextMessage[] };

/** Receives an agent's events, one after the other, while the run waits for it to return. */
export type AgentListener = (event: AgentEvent) => void;
