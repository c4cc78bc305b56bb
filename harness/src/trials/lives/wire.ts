// The wire format of each protocol, written from the providers' references and without the code on trial.
import Anthropic from "@anthropic-ai/sdk";
import type { Provider } from "@espalier/engine";
import { type AiSdkParams, aiSdk } from "@espalier/engine/ai-sdk";
import { anthropic } from "@espalier/engine/anthropic";
import { openai, openaiResponses } from "@espalier/engine/openai";
import type { OpenaiReply } from "@espalier/engine/testing";
import type { MessageReply } from "@espalier/summarizer/testing";
import { createGateway, generateText, jsonSchema, type ToolSet, tool } from "ai";
import OpenAI from "openai";

/** The protocols that the server speaks. */
export const protocols = ["anthropic", "chat", "responses", "ai-sdk"] as const;

export type Protocol = (typeof protocols)[number];

/** A thought of a model. Sealed: encrypted, its text unknown. */
export interface Thought {
  text: string;
  /** Signature or ciphertext of the provider, different for each thought. */
  mark: string;
  isSealed: boolean;
}

/** The next answer of the model, in the form of the loopback server of OpenAI's APIs. */
export interface Answer extends OpenaiReply {
  thoughts: readonly Thought[];
  text: string;
  calls: readonly { id: string; name: string; input: Record<string, unknown> }[];
  /** True where it ends at the limit of its length. */
  isCutOff: boolean;
}

/** An answer that was given, and its model. */
export interface Given extends Answer {
  model: string;
}

// biome-ignore lint/suspicious/noExplicitAny: a server reads what it does not trust, and answers 500 where it stumbles
type Json = Record<string, any>;

/** A turn of a request, in the words of no provider. */
export interface AskedTurn {
  role: "user" | "assistant";
  /** Thoughts in order, by their marks. */
  thoughts: { mark: string; text: string }[];
  calls: string[];
  results: string[];
  /** True where the user says something besides results. */
  hasWords: boolean;
  /** Base64 of images. */
  pictures: string[];
}

/** A request, in the words of no provider. */
export interface Asked {
  model: string;
  turns: AskedTurn[];
}

const emptyTurn = (role: AskedTurn["role"]): AskedTurn => ({
  role,
  thoughts: [],
  calls: [],
  results: [],
  hasWords: false,
  pictures: [],
});

/** Reads a request. `model` is where the protocol has it in a header. */
export function askedBy(protocol: Protocol, body: Json, model = ""): Asked {
  const turns: AskedTurn[] = [];
  const turn = (role: AskedTurn["role"]): AskedTurn => {
    if (turns.at(-1)?.role !== role) turns.push(emptyTurn(role));
    return turns.at(-1)!;
  };
  if (protocol === "anthropic")
    for (const message of body["messages"]) readBlocks(message, turn(message.role));
  else if (protocol === "chat") for (const message of body["messages"]) readChat(message, turn);
  else if (protocol === "responses") for (const item of body["input"]) readItem(item, turn);
  else for (const message of body["prompt"]) if (message.role !== "system") readParts(message, turn);
  return { model: body["model"] ?? model, turns };
}

function readBlocks({ content }: Json, turn: AskedTurn): void {
  for (const block of content as Json[]) {
    if (block["type"] === "thinking")
      turn.thoughts.push({ mark: block["signature"], text: block["thinking"] });
    else if (block["type"] === "redacted_thinking") turn.thoughts.push({ mark: block["data"], text: "" });
    else if (block["type"] === "tool_use") turn.calls.push(block["id"]);
    else if (block["type"] === "tool_result") {
      turn.results.push(block["tool_use_id"]);
      for (const inner of block["content"] as Json[])
        if (inner["type"] === "image") turn.pictures.push(inner["source"].data);
    } else if (turn.role === "user") turn.hasWords = true;
    if (block["type"] === "image") turn.pictures.push(block["source"].data);
  }
}

function readChat(message: Json, turnOf: (role: AskedTurn["role"]) => AskedTurn): void {
  if (message["role"] === "system") return;
  const turn = turnOf(message["role"] === "assistant" ? "assistant" : "user");
  for (const call of message["tool_calls"] ?? []) turn.calls.push(call.id);
  if (message["role"] === "tool") turn.results.push(message["tool_call_id"]);
  if (message["role"] === "user") turn.hasWords = true;
  for (const part of Array.isArray(message["content"]) ? message["content"] : [])
    if (part.type === "image_url") turn.pictures.push(inUrl(part.image_url.url));
}

function readItem(item: Json, turnOf: (role: AskedTurn["role"]) => AskedTurn): void {
  const isUsers = item["role"] === "user" || item["type"] === "function_call_output";
  const turn = turnOf(isUsers ? "user" : "assistant");
  if (item["type"] === "reasoning")
    turn.thoughts.push({
      mark: item["encrypted_content"],
      text: item["summary"].map(({ text }: Json) => text).join("\n\n"),
    });
  else if (item["type"] === "function_call") turn.calls.push(item["call_id"]);
  else if (item["type"] === "function_call_output") turn.results.push(item["call_id"]);
  else if (isUsers) turn.hasWords = true;
  for (const part of [item["content"], item["output"]].find(Array.isArray) ?? [])
    if (part.type === "input_image") turn.pictures.push(inUrl(part.image_url));
}

function readParts(message: Json, turnOf: (role: AskedTurn["role"]) => AskedTurn): void {
  const turn = turnOf(message["role"] === "assistant" ? "assistant" : "user");
  for (const part of message["content"] as Json[]) {
    if (part["type"] === "reasoning") {
      const { signature, redactedData } = part["providerOptions"]?.anthropic ?? {};
      turn.thoughts.push({ mark: signature ?? redactedData ?? "", text: part["text"] });
    } else if (part["type"] === "tool-call") turn.calls.push(part["toolCallId"]);
    else if (part["type"] === "tool-result") {
      turn.results.push(part["toolCallId"]);
      for (const inner of part["output"].type === "content" ? part["output"].value : [])
        if (inner.type === "image-data") turn.pictures.push(inner.data);
    } else if (turn.role === "user") turn.hasWords = true;
    if (part["type"] === "file") turn.pictures.push(inUrl(String(part["data"])));
  }
}

const inUrl = (url: string): string => url.replace(/^data:[^,]*,/, "");

/** Converts an answer to the form of the loopback server of the Messages API. */
export const anthropicReply = (answer: Given): MessageReply => ({
  kind: "message",
  content: [
    ...answer.thoughts.map(({ text, mark, isSealed }) =>
      isSealed
        ? { type: "redacted_thinking" as const, data: mark }
        : { type: "thinking" as const, thinking: text, signature: mark },
    ),
    ...(answer.text === "" ? [] : [{ type: "text" as const, text: answer.text }]),
    ...answer.calls.map((call) => ({ type: "tool_use" as const, ...call })),
  ],
  ...(answer.isCutOff ? { stopReason: "max_tokens" } : {}),
  usage: {
    input_tokens: 10,
    output_tokens: 10,
    cache_read_input_tokens: 0,
    cache_creation_input_tokens: 0,
  },
});

/** Converts an answer to the form of the AI SDK's gateway. */
export function gatewayReply({ thoughts, text, calls, isCutOff }: Given): object {
  const reasoning = thoughts.map(({ text, mark, isSealed }) => ({
    type: "reasoning",
    text: isSealed ? "" : text,
    providerMetadata: { anthropic: isSealed ? { redactedData: mark } : { signature: mark } },
  }));
  const called = calls.map(({ id, name, input }) => ({
    type: "tool-call",
    toolCallId: id,
    toolName: name,
    input: JSON.stringify(input),
  }));
  const unified = isCutOff ? "length" : calls.length > 0 ? "tool-calls" : "stop";
  return {
    content: [...reasoning, ...(text === "" ? [] : [{ type: "text", text }]), ...called],
    finishReason: { unified, raw: "x" },
    usage: {
      inputTokens: { total: 10, noCache: 10, cacheRead: 0, cacheWrite: 0 },
      outputTokens: { total: 10, text: 10, reasoning: 0 },
    },
    warnings: [],
  };
}

/** Provider names in sessions. */
export const providerNames: Record<Protocol, string> = {
  anthropic: "anthropic",
  chat: "openai",
  responses: "openai",
  "ai-sdk": "anthropic",
};

const parameters = { type: "object" as const, properties: { what: { type: "string" as const } } };
const SYSTEM = "You tend a garden.";

/** Tools of the model: `look` is run by the life; `remove` asks for approval where the SDK can, which then runs it. */
export const toolNames = ["look", "remove"];

/** A model at the server, as users of its SDK have it. */
export function providerAt(protocol: Protocol, url: string, model: string): Provider {
  const access = { apiKey: "key", baseURL: url, maxRetries: 0 };
  const tools = toolNames.map((name) => ({ name, description: `${name} it.` }));
  const common = { model, maxTokens: 1_000, system: SYSTEM };
  if (protocol === "anthropic") {
    const named = tools.map((tool) => ({ ...tool, input_schema: parameters }));
    return anthropic(new Anthropic(access), { ...common, tools: named });
  }
  const functions = tools.map((tool) => ({ ...tool, parameters }));
  if (protocol === "chat")
    return openai(new OpenAI(access), {
      ...common,
      tools: functions.map((tool) => ({ type: "function" as const, function: tool })),
    });
  if (protocol === "responses")
    return openaiResponses(new OpenAI(access), {
      ...common,
      tools: functions.map((tool) => ({ type: "function" as const, strict: false, ...tool })),
    });
  return gatewayProvider(url, model);
}

/** The SDK asks for approvals by itself, where it is told how to run the tool. */
function gatewayProvider(url: string, model: string): Provider {
  const gateway = createGateway({ apiKey: "key", baseURL: url });
  const inputSchema = jsonSchema<{ what: string }>(parameters);
  const tools: ToolSet = {
    look: tool({ description: "Looks.", inputSchema }),
    remove: tool({
      description: "Removes.",
      inputSchema,
      needsApproval: true,
      execute: async ({ what }) => `removed ${what}`,
    }),
  };
  const named = { provider: providerNames["ai-sdk"] };
  return {
    ...aiSdk(gateway(model), { maxTokens: 1_000, system: SYSTEM, tools, ...named }),
    // Approvals need the tools with their code; a whole answer, as `generateText` gives it.
    send: (params, abortSignal) =>
      generateText({ ...(params as AiSdkParams), tools, abortSignal, maxRetries: 0 }),
  };
}
