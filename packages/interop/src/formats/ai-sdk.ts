import {
  type AnswerBlock,
  type AssistantMessage,
  type Conversation,
  detachImages,
  fieldText,
  type HealedResult,
  isRecord,
  NO_RESULT,
  parsedItem,
  parsedJson,
  type RequestFormat,
  type ThinkingBlock,
  type UserBlock,
} from "@espalier/session-tree";
import { type ConversationSource, listOf, type WriteOptions, writeRequest } from "./conversation.ts";
import { nativeFor, nativeFormat } from "./native.ts";

/** A value in JSON; an undefined field is not written. */
export type JsonValue =
  | null
  | string
  | number
  | boolean
  | JsonValue[]
  | { [key: string]: JsonValue | undefined };

/** Options by the name of the provider that reads them. */
export type AiSdkOptions = Record<string, Record<string, JsonValue>>;

/** Text of a user or a model. */
export interface AiSdkText {
  type: "text";
  text: string;
  providerOptions?: AiSdkOptions;
}

/** An image that a user sent. */
export interface AiSdkImage {
  type: "image";
  /** Base64 data, or an address. */
  image: string;
  /** Type such as `image/png`; when it is absent, the SDK detects it from the bytes. */
  mediaType?: string;
  providerOptions?: AiSdkOptions;
}

/** A model's thinking; its signature is in `providerOptions`. */
export interface AiSdkReasoning {
  type: "reasoning";
  text: string;
  providerOptions?: AiSdkOptions;
}

/** A call to a tool; its result is in the `tool` message after the answer. */
export interface AiSdkCall {
  type: "tool-call";
  toolCallId: string;
  toolName: string;
  /** Arguments, parsed. */
  input: unknown;
  providerOptions?: AiSdkOptions;
}

/** Result of a tool call, in a `tool` message. */
export interface AiSdkResult {
  type: "tool-result";
  toolCallId: string;
  toolName: string;
  output: AiSdkOutput;
  providerOptions?: AiSdkOptions;
}

/** A result of one text as `text`, a failed result as `error-text`, a result with several parts or an image as a list. */
export type AiSdkOutput =
  | { type: "text" | "error-text"; value: string }
  | { type: "content"; value: (AiSdkText | AiSdkMedia)[] };

/** An image in a result, as base64. */
export interface AiSdkMedia {
  type: "image-data";
  data: string;
  mediaType: string;
}

/** A `ModelMessage` of the AI SDK (5 and later) with the fields that requests have. */
export type AiSdkMessage =
  | { role: "user"; content: (AiSdkText | AiSdkImage)[] }
  | { role: "assistant"; content: (AiSdkText | AiSdkReasoning | AiSdkCall)[] }
  | { role: "tool"; content: AiSdkResult[] };

/** A tool without code; pass `inputSchema` to the SDK's `jsonSchema()`. */
export interface AiSdkTool {
  name: string;
  description?: string;
  /** A JSON Schema. */
  inputSchema: Record<string, unknown>;
}

/** Arguments of `generateText` and `streamText` that depend on the conversation. */
export interface AiSdkRequest {
  system?: string;
  messages: AiSdkMessage[];
  tools?: AiSdkTool[];
}

const FORMAT = "ai-sdk";

type AnswerPart = Extract<AiSdkMessage, { role: "assistant" }>["content"][number];

type UserPart = Extract<AiSdkMessage, { role: "user" }>["content"][number];

/**
 * Makes `ModelMessage`s of the AI SDK: the request of `buildRequest` with `aiSdkFormat`, or with the format in
 * `options`.
 *
 * For a valid conversation it gives back the input of `fromAiSdk`, in this normal form: content is a list of parts,
 * system messages are in `system`; bytes are base64, addresses text; a result of one text is `text`, an image in one
 * `image-data`; an empty result says `(no output)`; results are in the order of their calls, in one message; each part
 * of OpenAI's reasoning has the encrypted content; roles alternate; blank texts, and reasoning at the end of an answer,
 * are left out.
 *
 * A call without a result gets one, except a call that the user approved or denied at the end of the conversation: the
 * SDK runs it, or tells the model that it was denied. Approvals of calls that have a result are before the results;
 * those of calls that are no longer in the conversation are left out.
 *
 * @throws EspalierError `empty-context` when there is nothing to send
 */
export function toAiSdk(
  source: ConversationSource,
  { format = aiSdkFormat, ...options }: WriteOptions & { format?: RequestFormat<AiSdkRequest> } = {},
): AiSdkRequest {
  return writeRequest(source, options, format);
}

/**
 * `ModelMessage`s of the AI SDK, version 6 and later, with the parts that only the SDK has; the types only name the
 * common ones. The provider of the request is unknown here, so call ids and names have a length that all providers
 * accept (40 and 64 characters). A result of one text is `text`, of several parts or an image `content`, a failed one
 * `error-text`; `json`, `error-json` and `execution-denied` are written again if the result was read from one and still
 * has its form. Images of a failed result follow in a user message.
 */
export const aiSdkFormat: RequestFormat<AiSdkRequest> = nativeFormat(
  {
    callIdLength: 40,
    toolNameLength: 64,
    acceptsThinking: acceptsReasoning,
    render,
  },
  FORMAT,
  {
    text: (text, fields) => ({ type: "text", text, ...fields }),
    picture: ({ url, data, mediaType }, { type = "image", ...fields }) => ({
      type,
      [type === "file" ? "data" : "image"]: data ?? url,
      ...(mediaType === undefined ? {} : { mediaType }),
      ...fields,
    }),
    // The SDK itself asks for approval, and runs the tool.
    ofClient: "ai-sdk.tool-approval-request",
    ties({ type, approvalId, toolCallId }) {
      if (type === "tool-approval-request") return { question: `approval ${fieldText(approvalId)}` };
      if (type === "tool-approval-response") return { result: `approval ${fieldText(approvalId)}` };
      if (type === "tool-result") return { result: toolCallId };
      return type === "tool-call" ? { question: toolCallId } : {};
    },
  },
);

function render({ system, tools, turns }: Conversation): AiSdkRequest {
  const messages: AiSdkMessage[] = [];
  /** Calls for which the SDK asked for approval, by the id of the approval. */
  const asked = new Map<unknown, unknown>();
  let names = new Map<string, string>();
  for (const [at, turn] of turns.entries()) {
    if (turn.role === "assistant") {
      const { content } = turn;
      names = new Map(content.flatMap((block) => (block.type === "call" ? [[block.id, block.name]] : [])));
      messages.push({ role: "assistant", content: renderAnswer(content, [...names.keys()], asked) });
      continue;
    }
    const results = turn.results.map((result) => renderResult(result, names.get(result.callId) ?? "tool"));
    const following = turn.results.flatMap((result) =>
      result.isError ? detachImages(result).following : [],
    );
    const parts = [...following, ...turn.content].map(renderUserBlock);
    // Approvals have the role `tool`.
    const isOfCalls = ({ type }: UserPart): boolean => type.startsWith("tool-");
    const approvals = parts.filter(isOfCalls) as unknown as AiSdkResult[];
    const said = parts.filter((part) => !isOfCalls(part));
    const isEnd = at === turns.length - 1 && said.length === 0;
    for (const content of withApprovals(results, approvals, asked, isEnd))
      if (content.length > 0) messages.push({ role: "tool", content });
    if (said.length > 0) messages.push({ role: "user", content: said });
  }
  return {
    ...(system === undefined ? {} : { system }),
    messages,
    ...(tools.length === 0
      ? {}
      : { tools: tools.map(({ parameters, ...tool }) => ({ ...tool, inputSchema: parameters })) }),
  };
}

/**
 * Renders an answer. Requests for approval come after the calls, as the SDK writes them; their call ids are those that
 * are sent. Adds each of them to `asked`: the id of the approval, and the call.
 */
function renderAnswer(
  blocks: readonly AnswerBlock[],
  callIds: readonly string[],
  asked: Map<unknown, unknown>,
): AnswerPart[] {
  const parts: AnswerPart[] = [];
  const requests: AnswerPart[] = [];
  for (const block of blocks) {
    if (block.type === "text") parts.push({ type: "text", text: block.text });
    else if (block.type === "thinking") parts.push(...reasoningParts(block.block));
    else if (block.type === "call") {
      const { id: toolCallId, name: toolName, input, opaque } = block;
      parts.push({ type: "tool-call", toolCallId, toolName, input, ...opaque });
    } else if (block.value["type"] === "tool-approval-request") {
      const toolCallId = sentId(fieldText(block.value["toolCallId"]), callIds);
      asked.set(block.value["approvalId"], toolCallId);
      requests.push({ ...block.value, toolCallId } as unknown as AnswerPart);
    } else parts.push(block.value as unknown as AnswerPart);
  }
  return [...parts, ...requests];
}

/**
 * Returns the sent id of a call. It differs from `id` if that was too long, invalid, or not unique; `id` itself if no sent
 * id matches.
 */
function sentId(id: string, sent: readonly string[]): string {
  if (sent.includes(id)) return id;
  const valid = id.replace(/[^a-zA-Z0-9_-]/g, "_");
  return sent.find((one) => valid.startsWith(one.replace(/_\d+$/, ""))) ?? id;
}

/**
 * Returns approvals of calls with a result, the results, and then approvals that the SDK has to process (only at the end
 * of the conversation: `isEnd`). The SDK reads only the last message, runs the calls approved there, and refuses an
 * approval whose request it does not know; such approvals are left out.
 */
function withApprovals(
  results: readonly AiSdkResult[],
  given: readonly AiSdkResult[],
  asked: ReadonlyMap<unknown, unknown>,
  isEnd: boolean,
): AiSdkResult[][] {
  const recorded = new Set(results.flatMap((result) => (isMadeUp(result) ? [] : [result.toolCallId])));
  const callOf = (part: object) => asked.get((part as { approvalId?: unknown }).approvalId) as string;
  const approvals = given.filter((part) => callOf(part) !== undefined);
  const isOpen = (part: AiSdkResult) => isEnd && !recorded.has(callOf(part));
  const open = approvals.filter(isOpen);
  const named = new Set(open.map(callOf));
  return [
    approvals.filter((part) => !isOpen(part)),
    results.filter((result) => !named.has(result.toolCallId)),
    open,
  ];
}

const isMadeUp = ({ output }: AiSdkResult): boolean =>
  output.type === "error-text" && output.value === NO_RESULT;

function renderUserBlock(block: UserBlock): UserPart {
  if (block.type === "opaque") return block.value as unknown as UserPart;
  if (block.type === "text") return { type: "text", text: block.text };
  return { type: "image", image: block.data, mediaType: block.mediaType };
}

function renderResult(result: HealedResult, toolName: string): AiSdkResult {
  const { type, output: beside, ...fields } = result.opaque ?? {};
  const output = { ...renderOutput(result, type), ...(isRecord(beside) ? beside : {}) };
  return {
    type: "tool-result",
    toolCallId: result.callId,
    toolName,
    output: output as AiSdkResult["output"],
    ...fields,
  };
}

/** @param type type of the output that was read, if it is not that of a text: `json`, `error-json`, `execution-denied` */
function renderOutput(result: HealedResult, type: unknown): object {
  const { content, isError } = result;
  const [only] = content;
  if (!isError && !(content.length === 1 && only?.type === "text"))
    return { type: "content", value: content.map(outputPart) };
  if (type === "execution-denied") return { type };
  const texts = detachImages(result).texts.map((block) =>
    block.type === "text" ? block.text : fieldText(block.value["text"]),
  );
  const value = texts.join("\n\n");
  // A result that was shortened is no longer JSON: it stays text.
  const json = type === "json" || type === "error-json" ? parsedJson(value) : undefined;
  return json === undefined ? { type: isError ? "error-text" : "text", value } : { type, value: json };
}

/** Returns a block of a result: images have another form there than in a user message. */
function outputPart(block: UserBlock): object {
  if (block.type === "opaque" && block.value["type"] !== "image") return block.value;
  const part = renderUserBlock(block);
  if (part.type !== "image") return part;
  const { type: _type, image, ...fields } = part;
  // Base64 has no colon, but an address has one.
  return image.includes(":")
    ? { type: "image-url", url: image, ...fields }
    : { type: "image-data", data: image, ...fields };
}

/** APIs of the SDK's providers for which the form of reasoning depends on the API. */
export const APIS: ReadonlyMap<string, string> = new Map([
  ["anthropic", "anthropic-messages"],
  ["openai", "openai-responses"],
]);

/** Returns whether the SDK can pass this block to the model that made it. */
function acceptsReasoning(block: ThinkingBlock, answer: AssistantMessage): boolean {
  if (typeof block.thinking !== "string" || !block.thinking.isWellFormed()) return false;
  const native = nativeFor(block, FORMAT);
  // In JSON only a lone surrogate is written with such an escape.
  if (native) return !JSON.stringify(native).includes("\\ud");
  const api = (typeof answer.api === "string" ? answer.api : APIS.get(answer.provider)) ?? "";
  const isOpenai = /^openai.*responses/.test(api);
  if (itemOf(block)) return isOpenai;
  const isAnthropic = api === "anthropic-messages";
  if (typeof block.thinkingSignature === "string" && block.thinkingSignature.trim() !== "")
    return block.thinkingSignature.isWellFormed() && isAnthropic;
  // Models that do not sign: the SDK sends their reasoning as text to models that accept it.
  return block.redacted !== true && !isOpenai && !isAnthropic;
}

/** Returns the parts of one block of thinking, with its signature in the SDK's form for the provider. */
export function reasoningParts(block: ThinkingBlock): AiSdkReasoning[] {
  const { thinking, thinkingSignature, redacted } = block;
  const part = (text: string, providerOptions?: AiSdkOptions): AiSdkReasoning => ({
    type: "reasoning",
    text,
    ...(providerOptions ? { providerOptions } : {}),
  });
  const native = nativeFor(block, FORMAT)?.value["providerOptions"];
  if (native) return [part(thinking, native as AiSdkOptions)];
  const item = itemOf(block);
  if (item) {
    const openai = { itemId: item.id, reasoningEncryptedContent: item.encrypted };
    return (item.summary.length > 0 ? item.summary : [{ text: "" }]).map(({ text }) =>
      part(text, { openai }),
    );
  }
  if (thinkingSignature === undefined) return [part(thinking)];
  return redacted === true
    ? [part("", { anthropic: { redactedData: thinkingSignature } })]
    : [part(thinking, { anthropic: { signature: thinkingSignature } })];
}

/** Returns the reasoning item of OpenAI in a signature; undefined for any other signature. */
export function itemOf({
  thinkingSignature,
}: ThinkingBlock): { id: string; summary: { text: string }[]; encrypted: string | null } | undefined {
  const item = parsedItem(thinkingSignature);
  if (item?.["type"] !== "reasoning" || typeof item["id"] !== "string") return undefined;
  const { id, summary, encrypted_content: encrypted } = item;
  return {
    id,
    summary: listOf(summary).filter(
      (part): part is { text: string } => isRecord(part) && typeof part["text"] === "string",
    ),
    encrypted: typeof encrypted === "string" ? encrypted : null,
  };
}
