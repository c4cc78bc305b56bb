// A request is what the SDK of its provider takes: this file does not compile where a cast would be needed.
import type Anthropic from "@anthropic-ai/sdk";
import { nativeFormats, toAiSdk, toAnthropic, toOpenaiChat, toOpenaiResponses } from "@espalier/interop";
import {
  anthropicFormat,
  buildRequest,
  openaiChatFormat,
  openaiResponsesFormat,
} from "@espalier/session-tree";
import type { ModelMessage } from "ai";
import type { ModelMessage as ModelMessage7 } from "ai-7";
import type OpenAI from "openai";
import { expect, test } from "vitest";
import { contextOf } from "./broken-history.ts";

const context = contextOf([{ role: "user", content: "hello", timestamp: 0 }], null);
const tools = [{ name: "look", parameters: { type: "object", properties: {} } }];

test("a request for Anthropic has the SDK's types, and so have its tools alone", () => {
  const plain = buildRequest(context, { format: anthropicFormat, tools });
  const native = buildRequest(context, { format: nativeFormats.anthropic, tools });
  for (const request of [plain, native, toAnthropic(context, { tools })]) {
    const params: Anthropic.MessageStreamParams = { ...request, model: "claude", max_tokens: 1 };
    const given: Anthropic.Tool[] | undefined = request.tools;
    const messages: Anthropic.MessageParam[] = request.messages;
    expect([params.messages, given]).toEqual([messages, request.tools]);
  }
});

test("a request for Chat Completions has the SDK's types", () => {
  const plain = buildRequest(context, { format: openaiChatFormat, tools });
  const native = buildRequest(context, { format: nativeFormats.openai, tools });
  for (const request of [plain, native, toOpenaiChat(context, { tools })]) {
    const params: OpenAI.ChatCompletionCreateParamsNonStreaming = { ...request, model: "gpt" };
    expect(params.messages).toEqual(request.messages);
  }
});

test("a request for Responses has the SDK's types", () => {
  const plain = buildRequest(context, { format: openaiResponsesFormat, tools });
  const native = buildRequest(context, { format: nativeFormats["openai-responses"], tools });
  for (const request of [plain, native, toOpenaiResponses(context, { tools })]) {
    const params: OpenAI.Responses.ResponseCreateParamsNonStreaming = { ...request, model: "gpt" };
    expect(params.input).toEqual(request.input);
  }
});

test("messages for the AI SDK have the types of versions 6 and 7", () => {
  const { messages } = toAiSdk(context);
  const six: ModelMessage[] = messages;
  const seven: ModelMessage7[] = messages;
  expect(six).toEqual(seven);
});
