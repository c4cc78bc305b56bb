import { type ContextMessage, estimateTotal, type SessionContext } from "@espalier/session-tree";
import fc from "fast-check";
import { PNG } from "./format-histories.ts";

/** A context of these messages, as if nothing before any of them had changed. */
export function contextOf(messages: readonly unknown[], model: SessionContext["model"]): SessionContext {
  return {
    messages: messages as ContextMessage[],
    sources: messages.map((_, index) => `entry${index}`),
    prefixChanged: messages.map(() => false),
    tokens: estimateTotal(messages as ContextMessage[]),
    model,
    thinkingLevel: "off",
  };
}

const text = fc.constantFrom("plain", "", " \n", "lone \ud800", "😀", "</summary>");
const textBlock = text.map((said) => ({ type: "text", text: said }));
const picture = fc.record({
  type: fc.constant("image"),
  data: fc.constantFrom(PNG, "", "no base64!"),
  mimeType: fc.constantFrom("image/png", "image/bmp", undefined),
});
const odd = fc.constantFrom<unknown>(null, 7, "bare", {}, { type: "video" }, { type: "text", text: 5 });
const content = fc.oneof(text, fc.array(fc.oneof(textBlock, picture, odd), { maxLength: 3 }));
const id = fc.constantFrom("a", "b", "c", "a|b", "x".repeat(70), "");
const call = fc.record({
  type: fc.constant("toolCall"),
  id,
  name: fc.constantFrom("read", "fs.read", ""),
  arguments: fc.constantFrom<unknown>({}, { "k\ud800": [1] }, "text", null, undefined),
});
const thinking = fc.record(
  {
    type: fc.constant("thinking"),
    thinking: fc.constantFrom("deep", "", "lone \ud800"),
    thinkingSignature: fc.constantFrom(
      "c2ln",
      "",
      " ",
      '{"type":"reasoning","id":"rs_1","encrypted_content":"x"}',
    ),
    redacted: fc.boolean(),
  },
  { requiredKeys: ["type", "thinking"] },
);
const answer = fc.record({
  role: fc.constant("assistant"),
  content: fc.array(fc.oneof(textBlock, thinking, { weight: 2, arbitrary: call }, odd), { maxLength: 5 }),
  provider: fc.constantFrom("anthropic", "anthropic", "openai"),
  model: fc.constantFrom("claude-test", "claude-test", "other"),
  stopReason: fc.constantFrom("stop", "toolUse", "toolUse", "error", "aborted"),
});
const result = fc.record({ role: fc.constant("toolResult"), toolCallId: id, content, isError: fc.boolean() });

/** Histories as broken as files get: results that are missing, doubled, late or nobody's, failed answers, odd content. */
export const brokenHistory: fc.Arbitrary<unknown[]> = fc.array(
  fc.oneof(
    { weight: 3, arbitrary: fc.record({ role: fc.constant("user"), content }) },
    { weight: 4, arbitrary: answer },
    { weight: 4, arbitrary: result },
    { weight: 1, arbitrary: fc.record({ role: fc.constant("branchSummary"), summary: text }) },
  ),
  { maxLength: 14 },
);
