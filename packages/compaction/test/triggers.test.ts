import {
  DEFAULT_COMPACTION_SETTINGS,
  effectiveWindow,
  isByteOverflow,
  isContextOverflow,
  learntWindows,
  namedWindow,
  shouldCompact,
  tokenBudget,
  trustedTokens,
} from "@espalier/compaction";
import { type ContextMessage, contextOfPath } from "@espalier/session-tree";
import { describe, expect, test } from "vitest";
import { PathBuilder, words } from "./build-path.ts";

describe("a context is due for compaction", () => {
  const settings = { autoCompact: true, reserveTokens: 16_384 };
  test("strictly above the window less the reserve", () => {
    expect(shouldCompact(183_616, 200_000, settings)).toBe(false);
    expect(shouldCompact(183_617, 200_000, settings)).toBe(true);
  });

  test("never if autoCompact is off", () => {
    expect(shouldCompact(1_000_000, 200_000, { ...settings, autoCompact: false })).toBe(false);
  });
});

describe("the trusted size", () => {
  const usage = (total: number) => ({
    usage: { input: total, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: total },
  });
  const size = (path: PathBuilder, overhead = 0) => trustedTokens(contextOfPath(path.entries), overhead);

  test("is the provider's last count, and characters / 4 of later messages", () => {
    const path = new PathBuilder();
    path.user(words(50));
    path.answer("hi", usage(1_234));
    path.user(words(50));
    expect(size(path)).toBe(1_284);
  });

  test("counts system prompt and tools once: the provider's count includes them", () => {
    const path = new PathBuilder();
    path.user(words(50));
    expect(size(path, 900)).toBe(950);
    path.answer(words(1), usage(1_000));
    expect(size(path, 900)).toBe(1_000);
    const situation = { context: contextOfPath(path.entries), path: path.entries, now: 0 };
    const settings = { ...DEFAULT_COMPACTION_SETTINGS, contextWindow: 17_384 };
    expect(tokenBudget.judge({ ...situation, settings, overheadTokens: 900 })).toBeUndefined();
    expect(
      tokenBudget.judge({
        ...situation,
        settings: { ...settings, contextWindow: 17_383 },
        overheadTokens: 0,
      }),
    ).toBe("threshold");
  });

  test("is the sum of the parts if the total of a usage is 0 or not a number", () => {
    for (const totalTokens of [0, Number.NaN, null as unknown as number]) {
      const path = new PathBuilder();
      path.user(words(50));
      path.answer("hi", { usage: { input: 900, output: 34, cacheRead: 200, cacheWrite: 100, totalTokens } });
      expect(size(path)).toBe(1_234);
    }
  });

  test("is estimated without a usable count: no usage, an empty one, one of a failed answer", () => {
    for (const more of [
      {},
      usage(0),
      { ...usage(9_999), stopReason: "error" },
      { ...usage(9_999), stopReason: "aborted" },
    ]) {
      const path = new PathBuilder();
      path.user(words(50));
      path.answer(words(10), more);
      expect(size(path)).toBe(60);
    }
  });

  test("ignores a count from before a compaction or an edit of an earlier message", () => {
    const path = new PathBuilder();
    const first = path.user(words(50));
    path.answer(words(10), usage(150_000));
    path.add({ type: "context_edit", targetId: first, replacement: null });
    expect(size(path)).toBe(10);
    const kept = path.user(words(20));
    path.answer(words(10), usage(150_000));
    path.compaction(kept, words(5));
    expect(size(path)).toBe(35);
    path.answer(words(10), usage(77));
    expect(size(path)).toBe(77);
  });
});

describe("an overflow", () => {
  const failed = (errorMessage: string, more = {}) =>
    ({
      role: "assistant",
      content: [],
      provider: "p",
      model: "m",
      stopReason: "error",
      errorMessage,
      ...more,
    }) as never as ContextMessage;

  test("is recognized by the error messages of the providers", () => {
    for (const words of [
      "400 prompt is too long: 213462 tokens > 200000 maximum",
      "Your input exceeds the context window of this model",
      "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.",
      "context_length_exceeded",
      "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575)",
      "Please reduce the length of the messages or completion.",
      "the request exceeds the available context size, try increasing it",
      "input length and `max_tokens` exceed context limit",
      "413 request_too_large",
    ])
      expect([words, isContextOverflow(failed(words), 200_000)]).toEqual([words, true]);
  });

  test("is not another limit, another failure, or an aborted answer", () => {
    for (const words of [
      "429 rate limit: too many tokens per minute",
      "529 overloaded_error",
      "Too many requests: token limit exceeded per day",
      "invalid x-api-key",
      "",
    ])
      expect([words, isContextOverflow(failed(words), 200_000)]).toEqual([words, false]);
    expect(isContextOverflow(failed("prompt is too long", { stopReason: "aborted" }), 200_000)).toBe(false);
    expect(isContextOverflow({ role: "user", content: "prompt is too long", timestamp: 0 }, 200_000)).toBe(
      false,
    );
  });

  test("is not an error that another program stored as something other than text", () => {
    for (const errorMessage of [{ toString: "none" }, ["prompt is too long"], 413, null]) {
      expect(isContextOverflow(failed("", { errorMessage }), 200_000)).toBe(false);
      expect(namedWindow(failed("", { errorMessage }))).toBeUndefined();
    }
  });

  test("gives the window size in the words of most providers", () => {
    for (const [words, tokens] of [
      ["400 prompt is too long: 213462 tokens > 200000 maximum", 200_000],
      [
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.",
        128_000,
      ],
      ["The input token count (1196265) exceeds the maximum number of tokens allowed (1048575)", 1_048_575],
      ["This model's maximum prompt length is 131072 but the request contains 537812 tokens.", 131_072],
      ["input length and `max_tokens` exceed context limit: 188240 + 21333 > 200,000", 200_000],
      ["the request exceeds the available context size (4096 tokens), try increasing it", 4_096],
      ["Prompt is too long: 40000 tokens, too large for model with 32768 maximum context length", 32_768],
      // None is named, or none that could be one.
      ["Your input exceeds the context window of this model", undefined],
      ["413 request_too_large", undefined],
      ["prompt is too long: 9 tokens > 8 maximum", undefined],
      // No overflow at all.
      ["429 rate limit: 300000 tokens > 200000 maximum per minute", undefined],
    ] as const)
      expect([words, namedWindow(failed(words))]).toEqual([words, tokens]);
    const words = "prompt is too long: 213462 tokens > 200000 maximum";
    expect(namedWindow(failed(words, { stopReason: "aborted" }))).toBe(undefined);
    expect(namedWindow(failed(words, { stopReason: "stop" }))).toBe(undefined);
  });

  test("is recognized by a usage above the window, for any answer that was not aborted", () => {
    const usage = { input: 150_000, cacheRead: 50_000, cacheWrite: 1, output: 9 };
    for (const stopReason of ["stop", "toolUse", "length", "error"]) {
      expect(isContextOverflow(failed("", { stopReason, usage }), 200_000)).toBe(true);
      expect(isContextOverflow(failed("", { stopReason, usage }), 200_001)).toBe(false);
    }
    expect(isContextOverflow(failed("", { stopReason: "aborted", usage }), 200_000)).toBe(false);
  });

  test("is recognized by an answer without tokens at a full window", () => {
    const usage = { input: 150_000, cacheRead: 50_000, cacheWrite: 0, output: 0 };
    expect(isContextOverflow(failed("", { stopReason: "length", usage }), 200_000)).toBe(true);
    expect(isContextOverflow(failed("", { stopReason: "length", usage }), 200_001)).toBe(false);
    expect(isContextOverflow(failed("", { stopReason: "stop", usage }), 200_000)).toBe(false);
  });

  test("is not recognized by the text of an answer that is not an error", () => {
    expect(isContextOverflow(failed("prompt is too long", { stopReason: "stop" }), 200_000)).toBe(false);
  });
});

describe("windows recorded on a path", () => {
  const refused = (path: PathBuilder, model: string, tokens: number) =>
    path.answer("", {
      provider: "p",
      model,
      stopReason: "error",
      errorMessage: `400 prompt is too long: ${tokens + 1} tokens > ${tokens} maximum`,
    });
  const learntOf = (path: PathBuilder) => learntWindows(path.entries);

  test("come from refusals, and the newest one of a model counts", () => {
    const path = new PathBuilder();
    path.user("Hello?");
    expect(learntOf(path)).toEqual({});
    refused(path, "a", 50_000);
    refused(path, "b", 90_000);
    refused(path, "a", 40_000);
    expect(learntOf(path)).toEqual({ "p/a": 40_000, "p/b": 90_000 });
    expect(effectiveWindow(200_000, path.entries, { provider: "p", modelId: "a" })).toBe(40_000);
    expect(effectiveWindow(30_000, path.entries, { provider: "p", modelId: "a" })).toBe(30_000);
    expect(effectiveWindow(200_000, path.entries, { provider: "p", modelId: "c" })).toBe(200_000);
    expect(effectiveWindow(200_000, path.entries, null)).toBe(200_000);
  });

  test("come from the newest compaction and later refusals", () => {
    const path = new PathBuilder();
    refused(path, "a", 40_000);
    const kept = path.user("Hello?");
    path.compaction(kept, "Summary", { details: { learntWindows: { "p/b": 70_000, "p/c": "many" } } });
    expect(learntOf(path)).toEqual({ "p/b": 70_000 });
    refused(path, "c", 60_000);
    expect(learntOf(path)).toEqual({ "p/b": 70_000, "p/c": 60_000 });
    for (const details of [null, "words", { learntWindows: null }, undefined]) {
      path.compaction(kept, "Summary", details === undefined ? {} : { details });
      expect(learntOf(path)).toEqual({});
    }
  });
});

test("a refusal because of too many bytes is recognized by the messages of providers and proxies, and is an overflow", () => {
  const answer = (errorMessage: string, stopReason = "error") =>
    ({
      role: "assistant",
      content: [],
      provider: "p",
      model: "m",
      stopReason,
      errorMessage,
      timestamp: 0,
    }) as never;
  for (const words of ["413 request_too_large: no", "413 Request Entity Too Large", "Payload Too Large"]) {
    expect(isByteOverflow(answer(words)), words).toBe(true);
    expect(isContextOverflow(answer(words), 1_000), words).toBe(true);
    expect(isByteOverflow(answer(words, "aborted")), words).toBe(false);
  }
  expect(isByteOverflow(answer("prompt is too long: 200001 tokens > 200000 maximum"))).toBe(false);
});
