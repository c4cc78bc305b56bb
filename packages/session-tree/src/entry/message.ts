import { jsonText, type Usage } from "@espalier/jsonl-stream";

/**
 * The messages of a conversation, in the shapes of the session format v3, and the neutral messages of a context.
 *
 * Many programs write session files, so their content is not trusted: in a real file, a field can be missing or have
 * another type than its shape declares. Read messages with `contentBlocks` and `messageText`, which check the types.
 */

export type { Usage };

/** Text of a message. */
export interface TextBlock {
  type: "text";
  text: string;
  /** Data of a provider about the text, such as the id of an item. */
  textSignature?: string;
}

/** An image. Its base64 data is in the entry's line. */
export interface ImageBlock {
  type: "image";
  /** Base64, without a `data:` prefix. */
  data: string;
  /** Such as `image/png`. */
  mimeType: string;
}

/** A model's reasoning. The provider signed it, so it is sent back byte for byte or not at all. */
export interface ThinkingBlock {
  type: "thinking";
  thinking: string;
  /** Signature of the provider. Thinking without it is not sent to a provider that requires a signature. */
  thinkingSignature?: string;
  /** True when the provider encrypted the text. `thinkingSignature` then holds the encrypted data. */
  redacted?: boolean;
}

/** A model's request to run a tool. */
export interface ToolCallBlock {
  type: "toolCall";
  /** Id that the model gave the call; the call's result repeats it. */
  id: string;
  name: string;
  /** Parsed JSON. */
  arguments: Record<string, unknown>;
  /** A provider's signature of the thinking before the call, kept unchanged. */
  thoughtSignature?: string;
}

/** Content from a user, or from an extension on behalf of a user. A string counts as one text block. */
export type UserContent = string | (TextBlock | ImageBlock)[];

/** Blocks of an answer, in the model's order. */
export type AssistantBlock = TextBlock | ThinkingBlock | ToolCallBlock;

/** Message of a person, or of a program on behalf of a person. */
export interface UserMessage {
  role: "user";
  content: UserContent;
  /** Epoch milliseconds, as for every message. */
  timestamp: number;
}

/**
 * Reason why an answer ended. `error` and `aborted` answers are kept in the file and left out of every request.
 * `length`: the provider cut the answer at its limit. `deferred`: the provider paused the answer, and continues it in
 * the next request.
 */
export type StopReason = "stop" | "length" | "toolUse" | "error" | "aborted" | "deferred";

/** Answer of a model, with its usage and the reason why it ended. */
export interface AssistantMessage {
  role: "assistant";
  content: AssistantBlock[];
  /** API that gave the answer (`anthropic-messages`, `openai-responses`, …). Signatures in its blocks belong to this API. */
  api?: string;
  provider: string;
  model: string;
  usage?: Usage;
  stopReason: StopReason;
  /** The provider's message; set when `stopReason` is `error`. */
  errorMessage?: string;
  /** Epoch milliseconds. */
  timestamp: number;
}

/** Result of one tool call. Every call has one. A result that was never recorded is added to the request only. */
export interface ToolResultMessage {
  role: "toolResult";
  /** The `id` of the call. The call is in an answer above the result on the path. */
  toolCallId: string;
  toolName: string;
  content: (TextBlock | ImageBlock)[];
  isError: boolean;
  /** Data for people and extensions. It is never sent to a model. */
  details?: unknown;
  /** Epoch milliseconds. */
  timestamp: number;
}

/** A command that the user ran in the agent's shell. Its output is part of the context unless it is excluded. */
export interface BashExecutionMessage {
  role: "bashExecution";
  command: string;
  output: string;
  /** Null or absent when the command was ended before it had an exit code. */
  exitCode?: number | null;
  cancelled?: boolean;
  /** True when `output` holds only a part of the output. `fullOutputPath` is the file with all of it, if there is one. */
  truncated?: boolean;
  fullOutputPath?: string;
  /** True when people see the command and its output, and models do not. */
  excludeFromContext?: boolean;
  /** Epoch milliseconds. */
  timestamp: number;
}

/** The system prompt and the tools, as patches: later sections and tools replace or remove earlier ones. */
export interface SystemMessage {
  role: "system";
  content: string | TextBlock[];
  /** Parts of the prompt by name; null removes a part. */
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
  /** Never present. This is Anthropic's name for `parameters`; a tool with it would be sent with an empty schema. */
  input_schema?: never;
  /** Never present. This is the AI SDK's name for `parameters`. */
  inputSchema?: never;
}

/** Text that an extension added to the conversation. Models read it as a user message. */
export interface CustomMessage {
  role: "custom";
  customType: string;
  content: UserContent;
  /** True to show the text to people. Models read it in both cases. */
  display: boolean;
  details?: unknown;
  /** Epoch milliseconds. */
  timestamp: number;
}

/** Message in the context that represents a compaction. */
export interface CompactionSummaryMessage {
  role: "compactionSummary";
  summary: string;
  /** Tokens of the context before the compaction; the summary covers a part of it. */
  tokensBefore: number;
  /** Epoch milliseconds. */
  timestamp: number;
}

/** Message in the context that represents a branch summary. */
export interface BranchSummaryMessage {
  role: "branchSummary";
  summary: string;
  /** The leaf of the summarized branch. */
  fromId: string;
  /** Epoch milliseconds. */
  timestamp: number;
}

/** Message that a `message` entry holds. */
export type StoredMessage =
  | UserMessage
  | AssistantMessage
  | ToolResultMessage
  | BashExecutionMessage
  | SystemMessage
  | CustomMessage;

/** A message of the neutral context: the same for all providers, before healing and wrapping. */
export type ContextMessage = StoredMessage | CompactionSummaryMessage | BranchSummaryMessage;

/** A message, or another value with the content of one. */
export type WithContent = ContextMessage | { content?: unknown };

/** A block of a message of any role. Files of newer programs can hold unknown types. */
export type ContentBlock = TextBlock | ImageBlock | ThinkingBlock | ToolCallBlock;

/**
 * Returns the blocks of a message's content, or of a summary. A string counts as one text block; an empty string, and any
 * other value that is not an array, has no blocks. Items of an array that are not objects with a `type` are skipped.
 */
export function contentBlocks(message: WithContent): ContentBlock[] {
  const { role, summary, content } = message as { role?: unknown; summary?: unknown; content?: unknown };
  const said = role === "compactionSummary" || role === "branchSummary" ? summary : content;
  if (typeof said === "string") return said === "" ? [] : [{ type: "text", text: said }];
  if (!Array.isArray(said)) return [];
  return said.filter(
    (block): block is ContentBlock =>
      typeof block === "object" && block !== null && typeof block.type === "string",
  );
}

/**
 * Returns whether a block is an image: in the block, or at an address (`imageUrl`, as `@espalier/interop` stores it).
 */
export const isPicture = ({ type }: { type: string }): boolean => type === "image" || type === "imageUrl";

/**
 * Returns the text of a message: its text blocks, joined by newlines; of a summary, the summary; of a shell run, the
 * command and its output. Calls, thinking and images are not text.
 */
export function messageText(message: ContextMessage): string {
  if (message.role === "bashExecution") return `${fieldText(message.command)}\n${fieldText(message.output)}`;
  return contentText(message);
}

/** Returns the text blocks of a content, joined by newlines; an empty text when there are none. */
export function contentText(message: WithContent): string {
  const texts: string[] = [];
  for (const block of contentBlocks(message))
    if (block.type === "text" && typeof block.text === "string") texts.push(block.text);
  return texts.join("\n");
}

/** Returns the text of a content; if it is blank, what its first block shows: "an image" or a thought. */
export function contentGist(message: WithContent): string {
  const text = contentText(message);
  if (text.trim() !== "") return text;
  const [block] = contentBlocks(message);
  if (block?.type === "image") return "an image";
  return block?.type === "thinking" ? fieldText(block.thinking) : "";
}

/**
 * Returns the first 4,000 characters of a summary without headings and without the marks of empty sections. All summaries
 * begin with the same headings, so the text after them is more useful.
 */
export const withoutHeadings = (text: string): string =>
  text.slice(0, 4_000).replace(/^(?:#+ .*|\s*(?:[-*] )?(?:\[[ x]\] )?"?\(none\)"?\.?\s*)$/gim, " ");

/** Returns the tool calls of an answer, in order; an empty list for every other role. */
export function toolCalls(message: ContextMessage): ToolCallBlock[] {
  if (message.role !== "assistant") return [];
  return contentBlocks(message).filter((block): block is ToolCallBlock => block.type === "toolCall");
}

/** Returns all texts in a JSON value, such as the arguments of a call, in order; names of fields are left out. */
export function textsIn(value: unknown): string[] {
  const texts: string[] = [];
  const waiting: unknown[] = [value];
  while (waiting.length > 0) {
    const next = waiting.pop();
    if (typeof next === "string") texts.push(next);
    else if (typeof next === "object" && next !== null)
      for (const inner of Object.values(next).reverse()) waiting.push(inner);
  }
  return texts;
}

/** Returns whether a message is an answer that failed or was aborted. Requests leave out such an answer. */
export function isFailedAnswer(message: ContextMessage): boolean {
  return message.role === "assistant" && (message.stopReason === "error" || message.stopReason === "aborted");
}

/** Returns whether a value is an object in the sense of JSON: not null, not an array. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Returns the JSON value in a text; undefined when there is none. */
export function parsedJson(text: unknown): unknown {
  if (typeof text !== "string") return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // no JSON: the caller drops the text or keeps it unchanged
  }
}

/** Returns the object that a signature holds as JSON; undefined for any other signature. */
export function parsedItem(signature: unknown): Record<string, unknown> | undefined {
  // Most signatures are no JSON, and an exception takes longer than this test.
  const isObject = typeof signature === "string" && /^\s*\{/.test(signature);
  const item = isObject ? parsedJson(signature) : undefined;
  return isRecord(item) ? item : undefined;
}

/**
 * Returns a field as text, for fields that may have a wrong type in a file: a text as it is, an empty text for a
 * missing field, JSON for any other value. Use it instead of `String`, which throws for some values.
 */
export function fieldText(value: unknown): string {
  if (typeof value === "string") return value;
  return value === undefined || value === null ? "" : jsonText(value);
}
