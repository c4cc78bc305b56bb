import { type AssistantMessage, isRecord, parsedItem, type ThinkingBlock } from "../entry/message.ts";
import type { AnswerBlock, HealedCall, HealedResult, RequestFormat, Turn, UserBlock } from "./format.ts";
import { detachImages } from "./request.ts";

/** The part of a Chat Completions request that comes from the conversation. The system prompt is its first message. */
export interface OpenaiChatRequest {
  messages: OpenaiChatMessage[];
  tools?: OpenaiChatTool[];
}

/**
 * One message. After an answer, there is a `tool` message for each of its calls. `content` is null for an answer with
 * only calls.
 */
export type OpenaiChatMessage =
  | { role: "system"; content: string }
  | { role: "user"; content: string | OpenaiChatPart[] }
  | { role: "assistant"; content: string | null; tool_calls?: OpenaiChatToolCall[] }
  | { role: "tool"; tool_call_id: string; content: string };

/** A part of a user's message; `url` is a `data:` address. */
export type OpenaiChatPart =
  | { type: "text"; text: string }
  | { type: "image_url"; image_url: { url: string } };

/** A call to a tool; `arguments` is JSON as a text. */
export interface OpenaiChatToolCall {
  id: string;
  type: "function";
  function: { name: string; arguments: string };
}

/** A tool that the model can call; `parameters` is a JSON Schema. */
export interface OpenaiChatTool {
  type: "function";
  function: { name: string; description?: string; parameters: Record<string, unknown> };
}

/**
 * Format of OpenAI's Chat Completions API, which many other servers support too. Call ids have at most 40 characters,
 * names 64. Thinking cannot be sent. Texts of one turn are joined to one string with blank lines between them, because
 * some servers accept only strings. A turn with images is a list of parts. Images of tool results follow the results in
 * a user message. The API cannot mark a result as failed: only the result's own text can show the failure.
 */
export const openaiChatFormat: RequestFormat<OpenaiChatRequest> = {
  callIdLength: 40,
  toolNameLength: 64,
  acceptsThinking: () => false,
  render({ system, tools, turns }) {
    const messages: OpenaiChatMessage[] = system === undefined ? [] : [{ role: "system", content: system }];
    for (const turn of turns) renderChatTurn(turn, messages);
    return {
      messages,
      ...(tools.length === 0 ? {} : { tools: tools.map((tool) => ({ type: "function", function: tool })) }),
    };
  },
};

function renderChatTurn(turn: Turn, messages: OpenaiChatMessage[]): void {
  if (turn.role === "assistant") {
    messages.push(renderAnswer(turn.content));
    return;
  }
  const said: UserBlock[] = [];
  for (const result of turn.results) {
    const { texts, following } = detachImages(result);
    messages.push({ role: "tool", tool_call_id: result.callId, content: joined(texts) });
    for (const block of following) said.push(block);
  }
  for (const block of turn.content) said.push(block);
  if (said.length > 0) messages.push({ role: "user", content: renderContent(said) });
}

/** Renders an answer. A refusal alone goes into its own field; with other texts it is joined to them. */
function renderAnswer(blocks: AnswerBlock[]): OpenaiChatMessage {
  const texts = blocks.filter((block) => block.type === "text" || isRefusal(block));
  const [first] = texts;
  const refusal = texts.length === 1 && first && isRefusal(first) ? { refusal: textOf(first) } : undefined;
  const calls = blocks.flatMap((block) => (block.type === "call" ? [renderCall(block)] : []));
  return {
    role: "assistant",
    content: texts.length > 0 && !refusal ? joined(texts) : null,
    ...refusal,
    ...(calls.length > 0 ? { tool_calls: calls } : {}),
  };
}

const isRefusal = (block: AnswerBlock): boolean =>
  block.type === "opaque" && typeof block.value["refusal"] === "string";

function textOf(block: UserBlock | AnswerBlock): string {
  if (block.type === "text") return block.text;
  const { text, refusal } = block.type === "opaque" ? block.value : {};
  return String(text ?? refusal ?? "");
}

/** Renders a call. A custom tool takes text instead of arguments. */
function renderCall({ id, name, input, opaque }: HealedCall): OpenaiChatToolCall {
  if (opaque?.["type"] === "custom" && typeof input["input"] === "string")
    return { id, type: "custom", custom: { name, input: input["input"] } } as never;
  return { id, type: "function", function: { name, arguments: JSON.stringify(input) } };
}

function renderContent(blocks: UserBlock[]): string | OpenaiChatPart[] {
  if (blocks.every((block) => block.type === "text")) return joined(blocks);
  return blocks.map((block) => {
    if (block.type === "text") return block;
    if (block.type === "opaque") return block.value as OpenaiChatPart;
    return { type: "image_url", image_url: { url: `data:${block.mediaType};base64,${block.data}` } };
  });
}

const joined = (texts: (UserBlock | AnswerBlock)[]): string => texts.map(textOf).join("\n\n");

/** The part of a Responses request that comes from the conversation. */
export interface OpenaiResponsesRequest {
  instructions?: string;
  input: OpenaiResponsesItem[];
  tools?: OpenaiResponsesTool[];
}

/** One item. Calls, results and reasoning are separate items between the messages; `arguments` is JSON as a text. */
export type OpenaiResponsesItem =
  | { type: "message"; role: "user"; content: OpenaiResponsesPart[] }
  | { type: "message"; role: "assistant"; content: string }
  | {
      type: "reasoning";
      id: string;
      summary: { type: "summary_text"; text: string }[];
      encrypted_content: string;
    }
  | { type: "function_call"; call_id: string; name: string; arguments: string }
  | { type: "function_call_output"; call_id: string; output: string | OpenaiResponsesPart[] };

/** A part of a user's message or of a result; `image_url` is a `data:` address. */
export type OpenaiResponsesPart =
  | { type: "input_text"; text: string }
  | { type: "input_image"; image_url: string; detail: "auto" };

/** A tool that the model can call; `parameters` is a JSON Schema. */
export interface OpenaiResponsesTool {
  type: "function";
  name: string;
  description?: string;
  parameters: Record<string, unknown>;
  /** False, because the API would rewrite the schema otherwise. */
  strict: false;
}

/**
 * Format of OpenAI's Responses API. Call ids and names have at most 64 characters. Messages and calls are sent without
 * their item ids, because the API would look for stored items with these ids and for their former neighbours. Reasoning
 * is sent with its id, which the API requires, and with its encrypted content, so that the API does not look for a
 * stored item ("Item with id 'rs_…' not found"). Reasoning without an id or encrypted content is left out. The API
 * cannot mark a result as failed: only the result's own text can show the failure.
 */
export const openaiResponsesFormat: RequestFormat<OpenaiResponsesRequest> = {
  callIdLength: 64,
  toolNameLength: 64,
  acceptsThinking: (block, answer) => isResponsesAnswer(answer) && reasoningItem(block) !== undefined,
  render({ system, tools, turns }) {
    const input: OpenaiResponsesItem[] = [];
    const customCalls = new Set<string>();
    for (const turn of turns) renderResponsesTurn(turn, input, customCalls);
    return {
      ...(system === undefined ? {} : { instructions: system }),
      input,
      ...(tools.length === 0
        ? {}
        : { tools: tools.map((tool) => ({ type: "function", ...tool, strict: false })) }),
    };
  },
};

const isResponsesAnswer = ({ api }: AssistantMessage): boolean =>
  typeof api === "string" && /^openai.*responses/.test(api);

/**
 * Returns the reasoning item that a signature of this API holds as JSON. Undefined for any other signature, and for an
 * item that cannot be sent back.
 */
function reasoningItem({ thinkingSignature }: ThinkingBlock): OpenaiResponsesItem | undefined {
  const item = parsedItem(thinkingSignature);
  if (item?.["type"] !== "reasoning" || !thinkingSignature?.isWellFormed()) return undefined;
  const { id, encrypted_content } = item;
  const summary: unknown[] = Array.isArray(item["summary"]) ? item["summary"] : [];
  if (typeof id !== "string" || id === "" || !summary.every(isSummaryText)) return undefined;
  if (typeof encrypted_content !== "string" || encrypted_content === "") return undefined;
  return { type: "reasoning", id, summary, encrypted_content };
}

const isSummaryText = (part: unknown): part is { type: "summary_text"; text: string } =>
  isRecord(part) && part["type"] === "summary_text" && typeof part["text"] === "string";

/** @param customCalls ids of all calls of custom tools up to this turn */
function renderResponsesTurn(turn: Turn, input: OpenaiResponsesItem[], customCalls: Set<string>): void {
  if (turn.role === "assistant") {
    for (const block of turn.content) renderAnswerBlock(block, input, customCalls);
    return;
  }
  for (const result of turn.results) {
    const type = customCalls.has(result.callId) ? "custom_tool_call_output" : "function_call_output";
    input.push({ type, call_id: result.callId, output: renderOutput(result) } as OpenaiResponsesItem);
  }
  let said: OpenaiResponsesPart[] | undefined;
  for (const block of turn.content) {
    if (block.type === "opaque" && !isPart(block.value)) {
      input.push(block.value as OpenaiResponsesItem);
      said = undefined;
    } else if (said) said.push(renderPart(block));
    else {
      said = [renderPart(block)];
      input.push({ type: "message", role: "user", content: said });
    }
  }
}

/** Returns whether an opaque block is part of a message; false when it is an item of its own. */
const isPart = ({ type }: Record<string, unknown>): boolean => String(type).startsWith("input_");

function renderAnswerBlock(block: AnswerBlock, input: OpenaiResponsesItem[], customCalls: Set<string>): void {
  if (block.type === "text") {
    input.push({ type: "message", role: "assistant", content: block.text });
  } else if (block.type === "opaque") {
    input.push(block.value as OpenaiResponsesItem);
  } else if (block.type === "call") {
    const { id: call_id, name } = block;
    const { type, ...fields } = block.opaque ?? {};
    const text = block.input["input"];
    if (type === "custom_tool_call" && typeof text === "string") {
      customCalls.add(call_id);
      input.push({ type, call_id, name, input: text, ...fields } as never);
    } else
      input.push({ type: "function_call", call_id, name, arguments: JSON.stringify(block.input), ...fields });
  } else input.push(reasoningItem(block.block)!); // accepted by acceptsThinking
}

function renderOutput({ content }: HealedResult): string | OpenaiResponsesPart[] {
  return content.every((block) => block.type === "text") ? joined(content) : content.map(renderPart);
}

function renderPart(block: UserBlock): OpenaiResponsesPart {
  if (block.type === "text") return { type: "input_text", text: block.text };
  if (block.type === "opaque") return block.value as OpenaiResponsesPart;
  return { type: "input_image", image_url: `data:${block.mediaType};base64,${block.data}`, detail: "auto" };
}
