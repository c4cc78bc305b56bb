import type { CompactionResult } from "@espalier/engine";
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
  /** An entry is in the log: prompts, answers, results, marks. */
  | { type: "entry"; entry: Entry }
  | { type: "request"; messages: number; tokens: number }
  | { type: "text"; text: string }
  | { type: "thinking"; text: string }
  | { type: "answer"; message: AssistantMessage }
  | { type: "tool_start"; call: ToolCallBlock }
  | { type: "tool_end"; call: ToolCallBlock; result: ToolResultMessage }
  | { type: "queued"; text: string; waiting: number }
  | { type: "compact_start"; reason: "threshold" | "overflow" | "manual" }
  | { type: "compact_done"; result: CompactionResult }
  | { type: "compact_failed"; message: string }
  | { type: "retry"; afterMs: number }
  | { type: "agent_end"; lastAssistantMessage: AssistantMessage | null; messages: readonly ContextMessage[] };

export type AgentListener = (event: AgentEvent) => void;
