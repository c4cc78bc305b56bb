import Anthropic from "@anthropic-ai/sdk";
import type { MessageDraft, Session } from "@espalier/engine";
import {
  fromAiSdk,
  fromAnthropic,
  fromOpenaiChat,
  fromOpenaiResponses,
  nativeFormats,
  toAiSdk,
} from "@espalier/interop";
import { buildRequest, type ToolDefinition } from "@espalier/session-tree";
import { createGateway, generateText, jsonSchema, type ToolSet, tool } from "ai";
import OpenAI from "openai";
import type { Protocol } from "./wire.ts";

/** Which model is asked. */
export interface Asked {
  provider: string;
  modelId: string;
}

/** Sends the session as it is at its leaf; gives what came of it, as messages to append. */
export type Client = (session: Session, model: Asked) => Promise<readonly MessageDraft[]>;

/** Provider names by which sessions know whom they talk to. */
export const providerOf: Record<Protocol, string> = {
  anthropic: "anthropic",
  chat: "openai",
  responses: "openai",
  "ai-sdk": "anthropic",
};

const parameters = { type: "object" as const, properties: { what: { type: "string" as const } } };

/** `look` is run by who lives; `remove` asks for approval where the SDK can, and is then run by it. */
export const tools: ToolDefinition[] = [
  { name: "look", description: "Looks.", parameters },
  { name: "remove", description: "Removes.", parameters },
];
const SYSTEM = "You tend a garden.";

/** The SDK of a provider, as its users call it. */
export function clientOf(protocol: Protocol, url: string): Client {
  if (protocol === "anthropic") return anthropicClient(url);
  if (protocol === "chat") return chatClient(url);
  return protocol === "responses" ? responsesClient(url) : aiSdkClient(url);
}

const options = (url: string) => ({ apiKey: "key", baseURL: url, maxRetries: 0 });

function anthropicClient(url: string): Client {
  const client = new Anthropic(options(url));
  return async (session, model) => {
    const { context, system } = await session.prepareRequest({ system: SYSTEM, tools });
    const request = buildRequest(context, { format: nativeFormats.anthropic, model, system, tools });
    const answer = await client.messages.create({ ...request, model: model.modelId, max_tokens: 1_000 });
    return fromAnthropic([{ ...answer, model: model.modelId }], { timestamp: Date.now() }).messages;
  };
}

function chatClient(url: string): Client {
  const client = new OpenAI(options(url));
  return async (session, model) => {
    const { context, system } = await session.prepareRequest({ system: SYSTEM, tools });
    const request = buildRequest(context, { format: nativeFormats.openai, model, system, tools });
    const { choices } = await client.chat.completions.create({ ...request, model: model.modelId });
    return fromOpenaiChat([choices[0]!.message], { model, timestamp: Date.now() }).messages;
  };
}

function responsesClient(url: string): Client {
  const client = new OpenAI(options(url));
  return async (session, model) => {
    const { context, system } = await session.prepareRequest({ system: SYSTEM, tools });
    const format = nativeFormats["openai-responses"];
    const request = buildRequest(context, { format, model, system, tools });
    const { output } = await client.responses.create({ ...request, model: model.modelId, store: false });
    return fromOpenaiResponses(output, { model, timestamp: Date.now() }).messages;
  };
}

function aiSdkClient(url: string): Client {
  const gateway = createGateway({ apiKey: "key", baseURL: url });
  const inputSchema = jsonSchema<{ what: string }>(parameters);
  const set: ToolSet = {
    look: tool({ description: "Looks.", inputSchema }),
    remove: tool({
      description: "Removes.",
      inputSchema,
      needsApproval: true,
      execute: async ({ what }) => `removed ${what}`,
    }),
  };
  return async (session, model) => {
    const { context, system } = await session.prepareRequest({ system: SYSTEM, tools });
    const { messages } = toAiSdk(context, { model });
    const { response } = await generateText({
      model: gateway(model.modelId),
      ...(system === undefined ? {} : { system }),
      messages,
      tools: set,
      maxRetries: 0,
    });
    return fromAiSdk(response.messages, { model, timestamp: Date.now() }).messages;
  };
}
