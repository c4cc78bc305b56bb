import { missingSections, type SummaryAnswer, validateSummary } from "@espalier/summarizer";
import { describe, expect, it } from "vitest";
import { usage } from "./build-messages.ts";

const answer = (text: string, more: Partial<SummaryAnswer> = {}): SummaryAnswer => ({
  text,
  stopReason: "stop",
  model: { provider: "anthropic", modelId: "claude" },
  ...more,
});

const sections = ["Goal", "Constraints & Preferences", "Next Steps"];
const complete = "## Goal\nx\n\n## Constraints & Preferences\n(none)\n\n## Next Steps\n1. y";

describe("validateSummary", () => {
  it("accepts a summary with every section", () => {
    expect(() => validateSummary(answer(complete), { sections })).not.toThrow();
    expect(() => validateSummary(answer("any words"), { sections: [] })).not.toThrow();
  });

  it.each([
    ["four of six headings", "## Goal\nx\n## Next Steps\ny"],
    ["Chinese", "## 目标\n修复测试。\n\n## 约束与偏好\n无\n\n## 下一步\n1. 运行全部测试。"],
    ["no headings at all", "The user wants the tests fixed; one of three is left."],
    ["a text that begins like a refusal, under a heading", "## Goal\nx\n\nI cannot say more."],
    ["a heading behind words that begin like a refusal", "I'm sorry to say I can't be brief.\n\n## Goal\nx"],
  ])("accepts a summary with other headings: %s", (_, text) => {
    expect(() => validateSummary(answer(text), { sections })).not.toThrow();
  });

  it.each([
    ["cut-off", answer(complete, { stopReason: "length" })],
    ["refused", answer(complete, { stopReason: "refusal" })],
    ["tool-call", answer(complete, { stopReason: "toolUse" })],
    ["failed", answer(complete, { stopReason: "error" })],
    ["empty", answer(" \n\t")],
    ["refused", answer("I'm sorry, but I can't help with that.")],
    ["refused", answer("I cannot summarize this conversation.")],
    ["refused", answer("Lo siento, no puedo ayudar con eso.")],
    ["tool-call", answer('<function_calls>\n<invoke name="read">\n</invoke>\n</function_calls>')],
    ["tool-call", answer('{"type": "tool_use", "name": "read", "input": {}}')],
    ["tool-call", answer('```json\n{"name": "read", "arguments": {"path": "x"}}\n```')],
  ])("refuses as %s a text that must not be kept", (code, given) => {
    expect(() => validateSummary(given, { sections })).toThrow(expect.objectContaining({ code }));
  });

  it("keeps the bill of a refused answer", () => {
    const billed = answer("", { usage: usage(9, 1) });
    expect(() => validateSummary(billed, { sections })).toThrow(
      expect.objectContaining({ usage: usage(9, 1) }),
    );
  });

  it("does not mistake a reported refusal or call for one", () => {
    const reporting = `${complete}\n\nThe model said "I'm sorry, but I can't help" once.\n\`\`\`xml\n<invoke name="read">\n\`\`\``;
    expect(() => validateSummary(answer(reporting), { sections })).not.toThrow();
    expect(() =>
      validateSummary(answer(`Sorry state of the build: ${"it cannot start. ".repeat(200)}`), {
        sections: [],
      }),
    ).not.toThrow();
  });
});

describe("missingSections", () => {
  it.each([
    "## Goal",
    "# goal",
    "#### 1. Goal:",
    "**Goal**",
    "**Goal:**",
    "__1) GOAL__",
    "Goal:",
    "> ### Goal ##",
  ])("finds the heading %s", (line) => {
    expect(missingSections(`intro\n${line}\ntext`, ["Goal"])).toEqual([]);
  });

  it("accepts `and` for `&`, and does not accept a sentence as a heading", () => {
    expect(missingSections("## Constraints and preferences", ["Constraints & Preferences"])).toEqual([]);
    expect(missingSections("Goal: ship it\nThe Goal\n- Goals", ["Goal"])).toEqual(["Goal"]);
  });
});
