import { DEFAULT_COMPACTION_SETTINGS } from "@espalier/compaction";
import { afterAnswer } from "@espalier/engine";
import type { AssistantMessage } from "@espalier/session-tree";
import { expect, test } from "vitest";

const model = { provider: "anthropic", modelId: "claude-haiku-4-5" };
const TOO_LONG = "400 prompt is too long: 200001 tokens > 200000 maximum";
const answer = (given: Partial<AssistantMessage>): AssistantMessage => ({
  role: "assistant",
  content: [],
  provider: model.provider,
  model: model.modelId,
  stopReason: "stop",
  timestamp: 0,
  ...given,
});
const failed = (errorMessage: string) => answer({ stopReason: "error", errorMessage });
const WINDOW = DEFAULT_COMPACTION_SETTINGS.contextWindow;
const usageOf = (tokens: number) => ({
  input: tokens - 2,
  cacheRead: 1,
  cacheWrite: 1,
  output: 5,
  totalTokens: tokens + 5,
});
const FULL = DEFAULT_COMPACTION_SETTINGS.contextWindow - DEFAULT_COMPACTION_SETTINGS.reserveTokens;

test.each([
  [
    "an aborted answer triggers nothing, however full the context is",
    answer({ stopReason: "aborted" }),
    FULL + 1,
    "nothing",
  ],
  [
    "an aborted one with words of an overflow neither",
    { ...failed(TOO_LONG), stopReason: "aborted" as const },
    0,
    "nothing",
  ],
  ["an overflow is recognized by its message", failed(TOO_LONG), 0, "overflow"],
  ["an overflow is recognized by its status", failed("413 request_too_large"), 0, "overflow"],
  [
    "an overflow of another model triggers nothing",
    { ...failed(TOO_LONG), model: "another" },
    FULL + 1,
    "nothing",
  ],
  [
    "an overflow of another provider triggers nothing",
    { ...failed(TOO_LONG), provider: "another" },
    FULL + 1,
    "nothing",
  ],
  [
    "an overflow is recognized by a usage above the window",
    answer({ usage: usageOf(WINDOW + 1) }),
    FULL + 1,
    "overflow",
  ],
  [
    "a usage of exactly the window is not an overflow",
    answer({ usage: usageOf(WINDOW) }),
    FULL + 1,
    "threshold",
  ],
  [
    "a usage above the window of an answer that was aborted triggers nothing",
    answer({ usage: usageOf(WINDOW + 1), stopReason: "aborted" }),
    FULL + 1,
    "nothing",
  ],
  [
    "a usage above the window of another model is no overflow",
    answer({ usage: usageOf(WINDOW + 1), model: "another" }),
    FULL + 1,
    "threshold",
  ],
  ["another error triggers nothing", failed("529 overloaded"), FULL + 1, "nothing"],
  ["a rate limit is not an overflow", failed("429 rate limit: too many tokens per minute"), 0, "nothing"],
  ["a context above the threshold is compacted", answer({}), FULL + 1, "threshold"],
  ["a context at the threshold is not compacted", answer({}), FULL, "nothing"],
] as const)("%s", (_, given, tokens, expected) => {
  expect(afterAnswer(given, model, tokens, DEFAULT_COMPACTION_SETTINGS)).toBe(expected);
});

test("with autoCompact off, a full context triggers nothing", () => {
  const settings = { ...DEFAULT_COMPACTION_SETTINGS, autoCompact: false };
  expect(afterAnswer(answer({}), model, FULL + 1, settings)).toBe("nothing");
});
