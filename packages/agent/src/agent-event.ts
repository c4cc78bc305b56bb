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
  /** What was said during a run waits for its turn, with `waiting` texts in all. */
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
  /** What the model reads is another list now, after a compaction: whoever draws one of its own draws it anew. */
  | { type: "messages_replaced"; messages: readonly ContextMessage[] }
  /** A request that was too long goes out again, shorter, after so many milliseconds. */
  | { type: "retry"; afterMs: number }
  /** The run is over; null where it was aborted before there was an answer. `messages` are the context it left. */
  | { type: "agent_end"; lastAssistantMessage: AssistantMessage | null; messages: readonly ContextMessage[] };

/** Hears an agent's events, one after the other, while the run waits for it to return. */
export type AgentListener = (event: AgentEvent) => void;
