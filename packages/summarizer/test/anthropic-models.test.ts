import {
  anthropicModel,
  anthropicModels,
  clampOutput,
  contextWindowOf,
  pricesOf,
} from "@espalier/summarizer";
import fc from "fast-check";
import { describe, expect, it, test } from "vitest";

describe("anthropicModels", () => {
  it("knows a model with and without its date, and uses small sizes for any other", () => {
    expect(anthropicModel("claude-sonnet-4-5-20250929")).toBe(anthropicModels["claude-sonnet-4-5"]);
    expect(anthropicModel("claude-3-5-haiku-latest")).toBe(anthropicModels["claude-3-5-haiku"]);
    expect(anthropicModel("claude-opus-4@20250514")).toBe(anthropicModels["claude-opus-4"]);
    for (const stranger of ["my-model", "constructor"])
      expect(anthropicModel(stranger)).toEqual({ contextWindow: 200_000, maxOutputTokens: 8_192 });
  });

  it("knows the window of a session's model, and guesses none", () => {
    expect(contextWindowOf({ provider: "anthropic", modelId: "claude-opus-4-8-20260101" })).toBe(1_000_000);
    expect(contextWindowOf({ provider: "anthropic", modelId: "constructor" })).toBeUndefined();
    expect(contextWindowOf({ provider: "openai", modelId: "claude-opus-4-8" })).toBeUndefined();
    expect(contextWindowOf(null)).toBeUndefined();
  });

  it("has sizes and prices that make sense", () => {
    for (const { contextWindow, maxOutputTokens, prices } of Object.values(anthropicModels)) {
      expect(maxOutputTokens).toBeLessThan(contextWindow);
      expect(prices!.cacheRead).toBeLessThan(prices!.input);
      expect(prices!.output).toBeGreaterThan(prices!.cacheWrite);
    }
  });
});

test("own prices have priority, and an absent price equals that of the input", () => {
  const own = { "openai/gpt-5": { input: 2, output: 8, cacheRead: 0.5 } };
  expect(pricesOf({ provider: "openai", modelId: "gpt-5" }, 0, own)).toEqual({
    input: 2,
    output: 8,
    cacheRead: 0.5,
    cacheWrite: 2,
  });
  expect(pricesOf({ provider: "openai", modelId: "a-model-of-ones-own" })).toBeUndefined();
});

test("models of OpenAI have prices by name, for every provider that offers them, and higher ones for long prompts", () => {
  const prices = { input: 2.5, output: 15, cacheRead: 0.25, cacheWrite: 2.5 };
  expect(pricesOf({ provider: "openai", modelId: "gpt-5.4-2026-03-05" })).toEqual(prices);
  expect(pricesOf({ provider: "a-proxy", modelId: "gpt-5.4" }, 272_000)).toEqual(prices);
  expect(pricesOf({ provider: "openai", modelId: "gpt-5.4" }, 272_001)).toEqual({
    input: 5,
    output: 22.5,
    cacheRead: 0.5,
    cacheWrite: 5,
  });
  expect(pricesOf({ provider: "anthropic", modelId: "gpt-5.4" })).toBeUndefined();
});

describe("clampOutput", () => {
  it.each(Object.entries(anthropicModels))(
    "never requests more of %s than its maximum, or than its window leaves",
    (_, model) => {
      const { contextWindow, maxOutputTokens } = model;
      for (const wanted of [1, 4_096, 13_107, 64_000, 339_835, 1_000_000]) {
        for (const prompt of [0, 1_000, contextWindow - 5_000, contextWindow, contextWindow + 1]) {
          const clamped = clampOutput(wanted, maxOutputTokens, contextWindow - prompt);
          expect(clamped).toBeLessThanOrEqual(Math.min(wanted, maxOutputTokens));
          expect(prompt + clamped).toBeLessThanOrEqual(Math.max(contextWindow, prompt));
          expect(clamped === 0).toBe(prompt >= contextWindow);
        }
      }
    },
  );

  it("is the least of its three limits, in whole tokens, and never negative", () => {
    fc.assert(
      fc.property(
        fc.double({ min: 0, max: 1e6, noNaN: true }),
        fc.nat(1e6),
        fc.integer({ min: -1e6, max: 1e6 }),
        (wanted, most, left) => {
          expect(clampOutput(wanted, most, left)).toBe(Math.max(0, Math.min(Math.floor(wanted), most, left)));
        },
      ),
    );
  });
});
