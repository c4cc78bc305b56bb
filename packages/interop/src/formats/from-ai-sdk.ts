import {
  type AssistantMessage,
  type ContentBlock,
  isRecord,
  type ToolDefinition,
} from "@espalier/session-tree";
import { readOutput } from "./ai-sdk-output.ts";
import { providerOf, readAnswerPart, readUserPart } from "./ai-sdk-parts.ts";
import { joinedReasoning } from "./ai-sdk-reasoning.ts";
import { ConversationBuilder } from "./conversation-builder.ts";
import type { ConversationOptions, ImportedConversation } from "./imported-conversation.ts";
import { nativeBlock } from "./native.ts";
import { partsOf } from "./openai-parts.ts";

const FORMAT = "ai-sdk";

type Fields = Record<string, unknown>;

/** The API through which the SDK speaks with a provider, as far as the shape of its reasoning depends on it. */
const APIS: ReadonlyMap<string, string> = new Map([
  ["anthropic", "anthropic-messages"],
  ["openai", "openai-responses"],
]);

/**
 * A conversation of the AI SDK (`ModelMessage`s of version 5 and later) as neutral messages: `{system, messages, tools}`
 * or the list of messages. Never throws: what is not of the format is passed over and told in `issues`.
 *
 * The messages do not say who answered. Where `options.model` does not either, it is the provider whose signature stands
 * first on reasoning; an answer with another provider's reasoning is that provider's.
 *
 * - bytes become base64, addresses text
 * - files, approvals, calls that the provider ran: kept as they are, and given back by `toAiSdk`
 * - `providerOptions` of a part are kept beside it; those of a whole message are left out, and told
 */
export function fromAiSdk(input: unknown, options: ConversationOptions = {}): ImportedConversation {
  const reading = new ConversationBuilder({ api: undefined, provider: "unknown" }, options);
  const plain = reading.read(input);
  const request: Fields = Array.isArray(plain) ? { messages: plain } : isRecord(plain) ? plain : {};
  const messages = (Array.isArray(request["messages"]) ? request["messages"] : []).map((message) =>
    isRecord(message) ? message : {},
  );
  const provider = options.model?.provider ?? messages.map(providerOf).find((found) => found !== undefined);
  const origin = { provider: provider ?? "unknown", api: APIS.get(provider ?? "") };
  const builder = new ConversationBuilder(origin, options, reading.issues);
  if (!Array.isArray(request["messages"]))
    builder.issues.add("malformed", "messages", "", "There is no list of messages.");
  const prompt = request["system"] ?? request["instructions"];
  if (typeof prompt === "string") builder.system(prompt, "system");
  for (const [at, message] of messages.entries()) readMessage(message, `messages[${at}]`, builder);
  return builder.finish(readTools(request["tools"], builder));
}

function readMessage({ role, content, ...rest }: Fields, path: string, builder: ConversationBuilder): void {
  const { issues } = builder;
  issues.dropped(Object.keys(rest), path);
  const parts = typeof content === "string" ? [{ type: "text", text: content }] : content;
  if (role === "system") {
    if (typeof content === "string") builder.system(content, path);
    else issues.add("malformed", "system", path, "A system message is no text; it is left out.");
  } else if (!Array.isArray(parts)) {
    issues.add("malformed", "content", path, "The content of a message is neither text nor a list.");
  } else if (role === "user") {
    if (typeof content === "string") builder.user(content);
    else builder.user(listOf(parts, path, builder, readUserPart));
  } else if (role === "assistant") readAnswer(parts, path, builder);
  else if (role === "tool") readResults(parts, path, builder);
  else issues.add("malformed", "role", path, "A message is of no role that is known here; it is left out.");
}

function listOf(
  parts: readonly unknown[],
  path: string,
  { issues }: ConversationBuilder,
  read: typeof readUserPart,
): ContentBlock[] {
  return partsOf(parts, `${path}.content`, issues).flatMap(([part, place]) => read(part, place, issues));
}

function readAnswer(parts: readonly unknown[], path: string, builder: ConversationBuilder): void {
  const blocks: ContentBlock[] = [];
  for (const block of listOf(parts, path, builder, readAnswerPart)) {
    const last = blocks.at(-1);
    const joined =
      last?.type === "thinking" && block.type === "thinking" ? joinedReasoning(last, block) : undefined;
    if (joined) blocks[blocks.length - 1] = joined;
    else blocks.push(block);
  }
  builder.answer(blocks, originOf(parts, builder));
}

/** An answer with another provider's reasoning was that provider's. */
function originOf(parts: readonly unknown[], builder: ConversationBuilder): Partial<AssistantMessage> {
  const provider = providerOf({ content: parts });
  if (provider === undefined || provider === builder.provider) return {};
  return { provider, model: "unknown", api: APIS.get(provider) ?? "ai-sdk" };
}

function readResults(parts: readonly unknown[], path: string, builder: ConversationBuilder): void {
  const { issues } = builder;
  const others: ContentBlock[] = [];
  for (const [part, place] of partsOf(parts, `${path}.content`, issues)) {
    const { type, toolCallId, toolName, output, ...rest } = part;
    if (type !== "tool-result") {
      issues.opaque(type, place);
      others.push(nativeBlock(FORMAT, part));
    } else {
      const { content, isError, native } = readOutput(output, place, issues);
      const value = { ...native, ...rest };
      const beside = Object.keys(value).length > 0 ? ({ format: FORMAT, value } as const) : undefined;
      builder.result(typeof toolCallId === "string" ? toolCallId : "", content, isError, place, {
        native: beside,
        named: typeof toolName === "string" ? toolName : "",
      });
    }
  }
  if (others.length > 0) builder.user(others);
}

/** Tools as {@link AiSdkTool}s; a `ToolSet` holds code, which no session keeps. */
function readTools(tools: unknown, { issues }: ConversationBuilder): ToolDefinition[] {
  if (tools === undefined) return [];
  return (Array.isArray(tools) ? tools : [tools]).flatMap((tool, at): ToolDefinition[] => {
    const { name, description, inputSchema, type: _type, ...rest } = isRecord(tool) ? tool : {};
    if (typeof name !== "string") {
      issues.add(
        "dropped",
        "tool",
        `tools[${at}]`,
        "Tools are read from a list of names and JSON Schemas only.",
      );
      return [];
    }
    issues.dropped(Object.keys(rest), `tools[${at}]`);
    const described = typeof description === "string" ? { description } : {};
    return [{ name, ...described, ...(isRecord(inputSchema) ? { parameters: inputSchema } : {}) }];
  });
}
