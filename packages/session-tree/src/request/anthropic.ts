import type { AssistantMessage, ThinkingBlock } from "../entry/message.ts";
import {
  type AnswerBlock,
  type HealedResult,
  type HealedTool,
  type ObjectSchema,
  type PictureType,
  type RequestFormat,
  type Turn,
  trimmedEnd,
  type UserBlock,
} from "./format.ts";
import { detachImages } from "./request.ts";

/** The part of a Messages API request that comes from the conversation. The caller adds `model`, `max_tokens` and so on. */
export interface AnthropicRequest {
  system?: string;
  messages: AnthropicMessage[];
  tools?: { name: string; description?: string; input_schema: ObjectSchema }[];
}

/** One turn. Roles alternate, the first turn is the user's, and results come before other content. */
export type AnthropicMessage =
  | { role: "user"; content: (AnthropicToolResult | AnthropicContent)[] }
  | { role: "assistant"; content: AnthropicAnswerBlock[] };

/** Content of a user or of a result; `data` is base64 without a `data:` prefix. */
export type AnthropicContent =
  | { type: "text"; text: string }
  | { type: "image"; source: { type: "base64"; media_type: PictureType; data: string } };

/** Result of one tool call, in the user message after it. */
export interface AnthropicToolResult {
  type: "tool_result";
  tool_use_id: string;
  content: AnthropicContent[];
  /** Absent when the call succeeded. */
  is_error?: true;
}

/**
 * A block of an answer. Thinking is sent back byte for byte: as text with its signature, or as `data` when the provider
 * encrypted it.
 */
export type AnthropicAnswerBlock =
  | { type: "text"; text: string }
  | { type: "thinking"; thinking: string; signature: string }
  | { type: "redacted_thinking"; data: string }
  | { type: "tool_use"; id: string; name: string; input: Record<string, unknown> };

/** APIs and providers whose signatures are item ids, JSON or field names. */
const FOREIGN = /^(openai|azure|google|gemini|mistral)/;

/**
 * Format of Anthropic's Messages API. Ids and names match `^[a-zA-Z0-9_-]+$`, with at most 64 and 128 characters (from
 * the API's error messages). Thinking needs a signature. Its text can be empty, as from models that hide their
 * thinking.
 */
export const anthropicFormat: RequestFormat<AnthropicRequest> = {
  callIdLength: 64,
  toolNameLength: 128,
  acceptsThinking,
  render: ({ system, tools, turns }) => ({
    ...(system === undefined ? {} : { system }),
    messages: withoutTrailingSpace(turns.map(renderTurn)),
    ...(tools.length === 0 ? {} : { tools: tools.map(renderTool) }),
  }),
};

function acceptsThinking(block: ThinkingBlock, answer: AssistantMessage): boolean {
  if (FOREIGN.test(typeof answer.api === "string" ? answer.api : answer.provider)) return false;
  const isSigned = isSendable(block.thinkingSignature) && block.thinkingSignature.trim() !== "";
  return isSigned && (block.redacted === true || isSendable(block.thinking));
}

const isSendable = (text: unknown): text is string => typeof text === "string" && text.isWellFormed();

function renderTurn(turn: Turn): AnthropicMessage {
  if (turn.role === "assistant") return { role: "assistant", content: turn.content.map(renderAnswerBlock) };
  const content: (AnthropicToolResult | AnthropicContent)[] = [];
  const following: UserBlock[] = [];
  for (const result of turn.results) content.push(renderResult(result, following));
  for (const block of following) content.push(renderContent(block));
  for (const block of turn.content) content.push(renderContent(block));
  return { role: "user", content };
}

/**
 * Renders a result. The images of a failed result are added to `following`: "All content must be type `text` if
 * `is_error` is true".
 */
function renderResult(result: HealedResult, following: UserBlock[]): AnthropicToolResult {
  const { callId: tool_use_id, content } = result;
  if (!result.isError)
    return { type: "tool_result", tool_use_id, content: content.map(renderContent), ...result.opaque };
  const detached = detachImages(result);
  for (const block of detached.following) following.push(block);
  const texts = detached.texts.map(renderContent);
  return { type: "tool_result", tool_use_id, content: texts, is_error: true, ...result.opaque };
}

function renderContent(block: UserBlock): AnthropicContent {
  if (block.type === "text") return block;
  if (block.type === "opaque") return block.value as AnthropicContent;
  return { type: "image", source: { type: "base64", media_type: block.mediaType, data: block.data } };
}

function renderAnswerBlock(block: AnswerBlock): AnthropicAnswerBlock {
  if (block.type === "text") return block;
  if (block.type === "opaque") return block.value as AnthropicAnswerBlock;
  if (block.type === "call")
    return { type: "tool_use", id: block.id, name: block.name, input: block.input, ...block.opaque };
  const { thinking, thinkingSignature = "", redacted } = block.block;
  return redacted === true
    ? { type: "redacted_thinking", data: thinkingSignature }
    : { type: "thinking", thinking, signature: thinkingSignature };
}

/**
 * Removes white space at the end of a request that ends with an answer to be continued: "Final assistant content cannot
 * end with trailing whitespace".
 */
function withoutTrailingSpace(messages: AnthropicMessage[]): AnthropicMessage[] {
  const last = messages.at(-1);
  const block = last?.content.at(-1);
  if (last?.role === "assistant" && block?.type === "text") {
    last.content[last.content.length - 1] = { ...block, text: trimmedEnd(block.text) };
  }
  return messages;
}

function renderTool({ parameters, ...tool }: HealedTool) {
  return { ...tool, input_schema: parameters };
}
