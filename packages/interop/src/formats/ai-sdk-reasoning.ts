import { type AssistantMessage, isRecord, type ThinkingBlock } from "@espalier/session-tree";
import type { AiSdkOptions, AiSdkReasoning } from "./ai-sdk-message.ts";
import { nativeFor, withNative } from "./native.ts";
import { parsedJson } from "./parsed-json.ts";

const FORMAT = "ai-sdk";

type Fields = Record<string, unknown>;

/**
 * Reasoning as sessions keep it. The SDK has a provider's signature among the part's options; a session has it in a
 * field of its own, so that it goes back whichever way the next request is made. What is more than that stays beside it.
 */
export function readReasoning(text: string, options: unknown): ThinkingBlock {
  const block: ThinkingBlock = { type: "thinking", thinking: text };
  if (!isRecord(options)) return block;
  const { anthropic, openai } = options;
  const names = Object.keys(options);
  if (isRecord(anthropic) && typeof anthropic["signature"] === "string") {
    const signed = { ...block, thinkingSignature: anthropic["signature"] };
    return isOnly(names, anthropic, ["signature"])
      ? signed
      : withNative(signed, FORMAT, { providerOptions: options });
  }
  if (isRecord(anthropic) && typeof anthropic["redactedData"] === "string" && text === "") {
    const signed = { ...block, thinkingSignature: anthropic["redactedData"], redacted: true };
    return isOnly(names, anthropic, ["redactedData"])
      ? signed
      : withNative(signed, FORMAT, { providerOptions: options });
  }
  if (isRecord(openai) && isOnly(names, openai, ["itemId", "reasoningEncryptedContent"])) {
    const { itemId, reasoningEncryptedContent: encrypted } = openai;
    if (typeof itemId === "string" && (encrypted === null || typeof encrypted === "string")) {
      const summary = text === "" ? [] : [{ type: "summary_text", text }];
      const item = { type: "reasoning", id: itemId, summary, encrypted_content: encrypted };
      return { ...block, thinkingSignature: JSON.stringify(item) };
    }
  }
  return withNative(block, FORMAT, { providerOptions: options });
}

/** True when the options are of one provider, and these fields all that it says. */
function isOnly(providers: string[], options: Fields, fields: string[]): boolean {
  return providers.length === 1 && Object.keys(options).every((field) => fields.includes(field));
}

/**
 * Two blocks as one, where the second goes on with the item of the first: the SDK makes a part of each paragraph of an
 * OpenAI summary. Undefined for any others.
 */
export function joinedReasoning(first: ThinkingBlock, second: ThinkingBlock): ThinkingBlock | undefined {
  const [a, b] = [itemOf(first), itemOf(second)];
  if (!a || !b || a.id !== b.id || a.encrypted !== b.encrypted) return undefined;
  if (a.summary.length === 0 || b.summary.length === 0) return undefined;
  const item = {
    type: "reasoning",
    id: a.id,
    summary: [...a.summary, ...b.summary],
    encrypted_content: a.encrypted,
  };
  const thinking = `${first.thinking}\n\n${second.thinking}`;
  return { type: "thinking", thinking, thinkingSignature: JSON.stringify(item) };
}

/** Whether the SDK can hand this block to the model that made it. */
export function acceptsReasoning(block: ThinkingBlock, { provider, api }: AssistantMessage): boolean {
  if (typeof block.thinking !== "string" || !block.thinking.isWellFormed()) return false;
  const native = nativeFor(block, FORMAT);
  // JSON writes half a character as an escape, and nothing else that begins so.
  if (native) return !JSON.stringify(native).includes("\\ud");
  if (itemOf(block)) return isOpenai(provider, api);
  if (typeof block.thinkingSignature === "string" && block.thinkingSignature.trim() !== "")
    return block.thinkingSignature.isWellFormed() && isAnthropic(provider, api);
  // Models that do not sign: the SDK sends their reasoning as text to those that take it.
  return block.redacted !== true && !isOpenai(provider, api) && !isAnthropic(provider, api);
}

const isAnthropic = (provider: unknown, api: unknown): boolean =>
  typeof api === "string" ? api === "anthropic-messages" : provider === "anthropic";
const isOpenai = (provider: unknown, api: unknown): boolean =>
  typeof api === "string" ? /^openai.*responses/.test(api) : provider === "openai";

/** The parts of one block. */
export function renderReasoning(block: ThinkingBlock): AiSdkReasoning[] {
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

/** The reasoning item of OpenAI that a signature holds; undefined for any other signature. */
function itemOf({
  thinkingSignature,
}: ThinkingBlock): { id: string; summary: { text: string }[]; encrypted: string | null } | undefined {
  const item = thinkingSignature?.startsWith("{") ? parsedJson(thinkingSignature) : undefined;
  if (!isRecord(item) || item["type"] !== "reasoning" || typeof item["id"] !== "string") return undefined;
  const { id, summary, encrypted_content: encrypted } = item;
  return {
    id,
    summary: (Array.isArray(summary) ? summary : []).filter(
      (part): part is { text: string } => isRecord(part) && typeof part["text"] === "string",
    ),
    encrypted: typeof encrypted === "string" ? encrypted : null,
  };
}
