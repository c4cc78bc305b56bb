export type { ContextEdit, Entry, EntryBehaviour, EntryKind, FilledIn, NewEntry, Settings } from "./entry.ts";
export { defineEntry } from "./entry.ts";
export type {
  AssistantBlock,
  AssistantMessage,
  BashExecutionMessage,
  BranchSummaryMessage,
  CompactionSummaryMessage,
  ContentBlock,
  ContextMessage,
  CustomMessage,
  ImageBlock,
  StopReason,
  StoredMessage,
  SystemMessage,
  TextBlock,
  ThinkingBlock,
  ToolCallBlock,
  ToolDefinition,
  ToolResultMessage,
  Usage,
  UserContent,
  UserMessage,
} from "./message.ts";
export { contentBlocks, isFailedAnswer, messageText, toolCalls } from "./message.ts";
export type { SessionContext } from "./session-context.ts";
export { SessionTreeError, type SessionTreeErrorCode } from "./session-tree-error.ts";
export { CHARS_PER_TOKEN, estimateTokens, estimateTotal, IMAGE_TOKENS } from "./tokens.ts";
