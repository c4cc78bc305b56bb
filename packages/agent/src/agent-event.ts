import type {
  AssistantMessage,
  ContextMessage,
  Entry,
  ToolCallBlock,
  ToolResultMessage,
} from "@espalier/session-tree";

/** What a run tells whoever listens, in the order in which it happens. */
export type AgentEvent =
  | { type: "agent_start" }
  /** An entry of the run is in the log: prompts, marks, answers, results, edits. */
  | { type: "entry"; entry: Entry }
  | { type: "request"; messages: number; tokens: number }
  | { type: "text"; text: string }
  | { type: "thinking"; text: string }
  | { type: "answer"; message: AssistantMessage }
  | { type: "tool_start"; call: ToolCallBlock }
  | { type: "tool_end"; call: ToolCallBlock; result: ToolResultMessage }
  | { type: "queued"; text: string; waiting: number }
  /** Results were moved to files, to be read there. */
  | { type: "offload_done"; offloadedCount: number; freedTokens: number }
  /** `message` says how full the context is: `Context at 85% - compacting`. */
  | { type: "compact_start"; message: string }
  /** Tokens, and how many messages the summary stands for. */
  | { type: "compact_done"; tokensBefore: number; tokensAfter: number; messagesRemoved: number }
  /** The history is as it was. */
  | { type: "compact_failed"; message: string }
  /** What the model reads is another list now, after a compaction: whoever draws one of its own draws it anew. */
  | { type: "messages_replaced"; messages: readonly ContextMessage[] }
  | { type: "retry"; afterMs: number }
  | { type: "agent_end"; lastAssistantMessage: AssistantMessage | null; messages: readonly ContextMessage[] };

export type AgentListener = (event: AgentEvent) => void;
