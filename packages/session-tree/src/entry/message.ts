import { jsonText } from "@espalier/jsonl-stream";
/**
 * The messages of a conversation, in the shapes of the session format v3, and the neutral messages a context is made of.
 *
 * Session files are written by many programs and read without trust: a field that a shape names can be missing or
 * of another type in a real file. Code that reads messages asks (`contentBlocks`, `messageText`) instead of assuming.
 */

/** Text of a message. */
export interface TextBlock {
  type: "text";
  text: string;
  /** A provider's own mark of the text, such as the id of an item. */
  textSignature?: string;
}

/** A picture, base64 in the line itself. */
export interface ImageBlock {
  type: "image";
  /** Base64, without a `data:` prefix. */
  data: string;
  /** As `image/png`. */
  mimeType: string;
}

/** A model's reasoning. Sent back byte-exact or not at all: the provider signed it. */
export interface ThinkingBlock {
  type: "thinking";
  thinking: string;
  /** Signature of the provider; without one it is sent to none that asks for it. */
  thinkingSignature?: string;
  /** True when the provider encrypted the text; `thinkingSignature` then holds the opaque data. */
  redacted?: boolean;
}

/** A model's wish to run a tool. */
export interface ToolCallBlock {
  type: "toolCall";
  /** Given by the model; its result names it. */
  id: string;
  name: string;
  /** Parsed JSON. */
  arguments: Record<string, unknown>;
  /** A provider's signature of the thinking before the call; kept as it is. */
  thoughtSignature?: string;
}

/** Content from a user, or an extension in a user's place: a string counts as one text block. */
export type UserContent = string | (TextBlock | ImageBlock)[];

/** Blocks of an answer, in the model's order. */
export type AssistantBlock = TextBlock | ThinkingBlock | ToolCallBlock;

/** Usage billed for one model call. Counts are tokens, `cost` is in US dollars. */
export interface Usage {
  /** Tokens of the prompt that did not come from the provider's cache. */
  input: number;
  /** Tokens of the answer, thinking included. */
  output: number;
  /** Tokens of the prompt that were read from the cache. */
  cacheRead: number;
  /** Tokens of the prompt that were written to the cache. */
  cacheWrite: number;
  /** The sum of the four, where the provider gave one. */
  totalTokens?: number;
  /** US dollars; absent where the prices were unknown. */
  cost?: { input?: number; output?: number; cacheRead?: number; cacheWrite?: number; total?: number };
}

/** Message of a person, or of a program in a person's place. */
export interface UserMessage {
  role: "user";
  content: UserContent;
  /** Epoch milliseconds, as for every message. */
  timestamp: number;
}

/**
 * End of an answer. `error` and `aborted` answers are kept in the file and left out of every request. A `deferred` one was
 * paused by its provider, which goes on with it in the next request.
 */
export type StopReason = "stop" | "length" | "toolUse" | "error" | "aborted" | "deferred";

/** Answer of a model, with its usage and its end. */
export interface AssistantMessage {
  role: "assistant";
  content: AssistantBlock[];
  /** The API it was asked through (`anthropic-messages`, `openai-responses`, …): whose signatures its blocks carry. */
  api?: string;
  provider: string;
  model: string;
  usage?: Usage;
  stopReason: StopReason;
  /** The provider's message, where `stopReason` is `error`. */
  errorMessage?: string;
  /** Epoch milliseconds. */
  timestamp: number;
}

/** Result of one tool call. Each call has one; one that was never recorded is made up in the request only. */
export interface ToolResultMessage {
  role: "toolResult";
  /** The `id` of the call, in an answer above it on the path. */
  toolCallId: string;
  toolName: string;
  content: (TextBlock | ImageBlock)[];
  isError: boolean;
  /** Data for people and extensions; no model reads it. */
  details?: unknown;
  /** Epoch milliseconds. */
  timestamp: number;
}

/** A command the user ran in the agent's shell; its output is context unless excluded. */
export interface BashExecutionMessage {
  role: "bashExecution";
  command: string;
  output: string;
  /** Null or absent: it was ended before it had one. */
  exitCode?: number | null;
  cancelled?: boolean;
  /** True: `output` is a part of what it said; `fullOutputPath` is the file with all of it, where there is one. */
  truncated?: boolean;
  fullOutputPath?: string;
  /** True: people see it, no model reads it. */
  excludeFromContext?: boolean;
  /** Epoch milliseconds. */
  timestamp: number;
}

/** The system prompt and tools as patches: later sections and tools replace or remove earlier ones. */
export interface SystemMessage {
  role: "system";
  content: string | TextBlock[];
  /** Parts of the prompt by name; null takes one away. */
  sections?: Record<string, string | null>;
  toolsAdded?: ToolDefinition[];
  toolsRemoved?: string[];
  /** Epoch milliseconds. */
  timestamp: number;
}

/** Definition of a tool for a model. */
export interface ToolDefinition {
  name: string;
  description?: string;
  /** A JSON Schema of type `object`; absent for a tool without arguments. */
  parameters?: Record<string, unknown>;
  /** Not here: this is Anthropic's name for `parameters`, and a tool with it would be sent with an empty schema. */
  input_schema?: never;
  /** Not here: the AI SDK's name for `parameters`. */
  inputSchema?: never;
}

/** Text that an extension put into the conversation; the model reads it as a user's. */
export interface CustomMessage {
  role: "custom";
  customType: string;
  content: UserContent;
  /** True to show it to people; the model reads it either way. */
  display: boolean;
  details?: unknown;
  /** Epoch milliseconds. */
  timestamp: number;
}

/** Message of a compaction in the context. */
export interface CompactionSummaryMessage {
  role: "compactionSummary";
  summary: string;
  /** Size of the context of which the summary covers a part. */
  tokensBefore: number;
  /** Epoch milliseconds. */
  timestamp: number;
}

/** Message of a branch summary in the context. */
export interface BranchSummaryMessage {
  role: "branchSummary";
  summary: string;
  /** The leaf of the summarized branch. */
  fromId: string;
  /** Epoch milliseconds. */
  timestamp: number;
}

/** A message of a `message` entry. */
export type StoredMessage =
  | UserMessage
  | AssistantMessage
  | ToolResultMessage
  | BashExecutionMessage
  | SystemMessage
  | CustomMessage;

/** A message of the neutral context: independent of any provider, before healing and wrapping. */
export type ContextMessage = StoredMessage | CompactionSummaryMessage | BranchSummaryMessage;

/** A block of a message of any role; unknown types are possible in files of newer writers. */
export type ContentBlock = TextBlock | ImageBlock | ThinkingBlock | ToolCallBlock;

/**
 * Returns the blocks of a message's content: a string counts as one text block, anything else as none.
 * Items of an array that are not objects with a `type` are skipped.
 */
export function contentBlocks(message: { content?: unknown }): ContentBlock[] {
  const { content } = message;
  if (typeof content === "string") return content === "" ? [] : [{ type: "text", text: content }];
  if (!Array.isArray(content)) return [];
  return content.filter(
    (block): block is ContentBlock =>
      typeof block === "object" && block !== null && typeof block.type === "string",
  );
}

/** The text blocks of a message, joined by newlines. Calls, thinking and pictures are not text. */
export function messageText(message: ContextMessage): string {
  if (message.role === "bashExecution") return `${fieldText(message.command)}\n${fieldText(message.output)}`;
  if (message.role === "compactionSummary" || message.role === "branchSummary") return message.summary ?? "";
  return contentText(message);
}

/** The text blocks of a content, joined by newlines. */
export function contentText(message: { content?: unknown }): string {
  return contentBlocks(message)
    .flatMap((block) => (block.type === "text" && typeof block.text === "string" ? [block.text] : []))
    .join("\n");
}

/** The tool calls of an answer, in order; none for every other role. */
export function toolCalls(message: ContextMessage): ToolCallBlock[] {
  if (message.role !== "assistant") return [];
  return contentBlocks(message).filter((block): block is ToolCallBlock => block.type === "toolCall");
}

/** True for an answer that never became part of the conversation: it failed or was aborted. */
export function isFailedAnswer(message: ContextMessage): boolean {
  return message.role === "assistant" && (message.stopReason === "error" || message.stopReason === "aborted");
}

/** True for what JSON calls an object: not null, not an array. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The JSON object that a signature is; undefined where it is none. */
export function parsedItem(signature: unknown): Record<string, unknown> | undefined {
  if (typeof signature !== "string" || !/^\s*\{/.test(signature)) return undefined;
  try {
    const item: unknown = JSON.parse(signature);
    return isRecord(item) ? item : undefined;
  } catch {
    return undefined; // no JSON, so no item: the caller leaves it out, or as it is
  }
}

/**
 * A field that should be text, whatever a file says it is: text as it is, nothing for a field that is missing, else its
 * JSON. What words an entry asks this instead of `String`, which a field can break.
 */
export function fieldText(value: unknown): string {
  if (typeof value === "string") return value;
  return value === undefined || value === null ? "" : jsonText(value);
}
