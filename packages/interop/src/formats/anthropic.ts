import {
  type AnthropicRequest,
  type AssistantMessage,
  anthropicFormat,
  type ContentBlock,
  isRecord,
  type StopReason,
} from "@espalier/session-tree";
import { toUsage } from "@espalier/summarizer";
import {
  ConversationBuilder,
  type ConversationOptions,
  type ConversationSource,
  type FormatIssues,
  type ImportedConversation,
  readContent,
  readInput,
  type WriteOptions,
  writeRequest,
} from "./conversation.ts";
import { imageAt, type NativeTies, nativeFormat, withNative } from "./native.ts";

const FORMAT = "anthropic";

type Fields = Record<string, unknown>;

/**
 * Reads a conversation of Anthropic's Messages API as neutral messages: a request (`{system, messages, tools}`), or its list of
 * messages; answers may be whole responses. Never throws: anything else is skipped and listed in `issues`.
 *
 * - `tool_result` blocks become messages of their own, before the other content of their turn
 * - documents, search results, everything from a server tool: kept as they are, and given back by `toAnthropic`
 * - fields of a text, an image or a call beyond the common ones (`citations`, `caller`, `transformations`) are stored in
 *   their block; those of thinking and of a result are left out, with an issue
 * - `cache_control` is for one request, not for a conversation: left out, with an issue
 */
export function fromAnthropic(input: unknown, options: ConversationOptions = {}): ImportedConversation {
  const builder = new ConversationBuilder({ api: "anthropic-messages", provider: "anthropic" }, options);
  const request = builder.read(input, "messages");
  const messages = builder.messagesOf(request);
  builder.say("system", "system", () => readPrompt(request["system"], "system", builder.issues));
  for (const [message, path] of messages) readMessage(message, path, builder);
  const message = "A tool that the server runs cannot be kept in a session.";
  return builder.finish(request["tools"], message, ({ type, input_schema, ...tool }) =>
    typeof type !== "string" || type === "custom" ? { parameters: input_schema, ...tool } : {},
  );
}

function readMessage({ role, content, ...rest }: Fields, path: string, builder: ConversationBuilder): void {
  const { issues } = builder;
  const place = `${path}.content`;
  if (role === "assistant") {
    const { said, unread } = answerFacts(rest);
    issues.dropped(unread, path);
    builder.answer(readContent(content, place, issues, readAnswerBlock), said);
    return;
  }
  issues.dropped(rest, path);
  if (role !== "user") {
    builder.say(role, path, () => readPrompt(content, place, issues));
    return;
  }
  let results = 0;
  const readPart = (part: Fields, at: string): ContentBlock[] => {
    if (part["type"] !== "tool_result") return readBlock(part, at, issues);
    results++;
    readResult(part, at, builder);
    return [];
  };
  const said = typeof content === "string" ? content : readContent(content, place, issues, readPart);
  if (said.length > 0 || results === 0) builder.say(role, path, () => said);
}

function readResult(block: Fields, path: string, builder: ConversationBuilder): void {
  const { type: _type, tool_use_id: toolCallId, content: given, is_error, ...rest } = block;
  builder.issues.dropped(rest, path);
  const content = readContent(given ?? [], `${path}.content`, builder.issues, readBlock);
  builder.result({ toolCallId, content, isError: is_error === true }, path);
}

const readPrompt = (system: unknown, path: string, issues: FormatIssues): ContentBlock[] =>
  readContent(system ?? [], path, issues, ({ type, text, ...rest }, place) => {
    issues.dropped(rest, place);
    if (type === "text" && typeof text === "string") return text === "" ? [] : [{ type, text }];
    return issues.misshapen("system", place, "A block of the system prompt is not a text.");
  });

/** Block types with a common form: a block of such a type without its required fields cannot be sent back. */
const COMMON = new Set(["text", "image", "thinking", "redacted_thinking", "tool_use", "tool_result"]);

/** Reads a block of a user message or of a result. A block of a type without a common form is stored unchanged. */
export function readBlock(block: Fields, path: string, issues: FormatIssues): ContentBlock[] {
  const { cache_control, ...kept } = block;
  issues.dropped({ cache_control }, path);
  const { type, text, source, ...rest } = kept;
  if (type === "text" && typeof text === "string") return [withNative({ type, text }, FORMAT, rest)];
  if (type === "image" && isRecord(source)) {
    const { type: kind, media_type: mimeType, data, url } = source;
    if (kind === "base64" && typeof data === "string" && typeof mimeType === "string")
      return [withNative({ type, data, mimeType }, FORMAT, rest)];
    const image = kind === "url" ? imageAt(url, FORMAT, rest) : undefined;
    if (image) return [image];
  } else if (COMMON.has(String(type))) return issues.misshapen(type, path);
  return [issues.opaque(FORMAT, kept, path)];
}

/** Reads a block of an answer. Blocks of server tools are stored unchanged: they exist only in this format. */
export function readAnswerBlock(block: Fields, path: string, issues: FormatIssues): ContentBlock[] {
  const { type, ...fields } = block;
  if (type === "thinking" && typeof fields["thinking"] === "string") {
    const { thinking, signature, ...rest } = fields;
    issues.dropped(rest, path);
    const thought = { type, thinking: fields["thinking"] } as const;
    if (typeof signature === "string") return [{ ...thought, thinkingSignature: signature }];
    issues.add("changed", "thinking", path, "Thinking without a signature is kept; requests leave it out.");
    return [thought];
  }
  if (type === "redacted_thinking" && typeof fields["data"] === "string") {
    const { data, ...rest } = fields;
    issues.dropped(rest, path);
    return [{ type: "thinking", thinking: "", thinkingSignature: fields["data"], redacted: true }];
  }
  const { id, name, input, cache_control, ...rest } = fields;
  if (type !== "tool_use" || typeof id !== "string" || typeof name !== "string")
    return readBlock(block, path, issues);
  issues.dropped({ cache_control }, path);
  const call = { type: "toolCall" as const, id, name, arguments: readInput(input, path, issues) };
  return [withNative(call, FORMAT, rest)];
}

const STOP_REASONS: ReadonlyMap<unknown, StopReason> = new Map([
  ["end_turn", "stop"],
  ["stop_sequence", "stop"],
  ["pause_turn", "deferred"],
  ["refusal", "error"],
  ["max_tokens", "length"],
  ["model_context_window_exceeded", "length"],
  ["tool_use", "toolUse"],
]);

/**
 * Returns the fields of an answer other than its content, if it came as a response of the API: model, usage, stop
 * reason. An answer in a request has none of them. A refusal is a failed answer: the API requires that later requests
 * leave it out. `unread` has the fields that a session cannot store; it needs no `id`, `type` and `stop_sequence`.
 */
export function answerFacts(fields: Fields): { said: Partial<AssistantMessage>; unread: Fields } {
  const { model, stop_reason, usage, id, type, stop_sequence, ...unread } = fields;
  const stopReason = STOP_REASONS.get(stop_reason);
  return {
    said: {
      ...(typeof model === "string" ? { model } : {}),
      ...(stopReason ? { stopReason } : {}),
      ...(stopReason === "error" ? { errorMessage: `The model stopped: ${String(stop_reason)}.` } : {}),
      ...(isRecord(usage) ? { usage: toUsage(usage) } : {}),
    },
    unread,
  };
}

/** Returns the ids of a server tool's call or result, or of the code that made a call. */
function tiesOf({ type, id, tool_use_id, caller }: Fields): NativeTies {
  if (type === "server_tool_use" || type === "mcp_tool_use") return { call: id };
  return { result: tool_use_id, caller: isRecord(caller) ? caller["tool_id"] : undefined };
}

/** `anthropicFormat`, with the blocks and fields that only this provider supports. */
export const anthropicNative = nativeFormat(anthropicFormat, FORMAT, {
  ties: tiesOf,
  isServed: true,
  text: (text, fields) => ({ type: "text", text, ...fields }),
  picture: ({ url, data, mediaType }, fields) => ({
    type: "image",
    source: data === undefined ? { type: "url", url } : { type: "base64", media_type: mediaType, data },
    ...fields,
  }),
});

/**
 * Makes a request of Anthropic's Messages API: that of `buildRequest` with `anthropicFormat`, with the blocks that only
 * this API has: those of users, and those of answers that the provider of the model gave. The types only name common
 * blocks.
 *
 * For a valid conversation it gives back the input of {@link fromAnthropic}, in this normal form: content is a list of
 * blocks, the system prompt a string; a result without content says `(no output)`, `is_error` is there when true;
 * results are in the order of their calls and before other content, calls after all text; roles alternate; blank texts,
 * and thinking at the end of an answer, are left out; tool schemas have `type` and `properties`.
 *
 * @throws EspalierError `empty-context` when there is nothing to send
 */
export function toAnthropic(source: ConversationSource, options: WriteOptions = {}): AnthropicRequest {
  return writeRequest(source, options, anthropicNative);
}
