import { estimateTotal } from "@espalier/session-tree";
import {
  charsEstimator,
  contextTokens,
  IMAGE_UPPER_BOUND,
  upperBoundEstimator,
  wordEstimator,
} from "@espalier/summarizer";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { assistant, picture, result, usage, user } from "./build-messages.ts";
import { denseTexts } from "./dense-texts.ts";

/** Real tokens of each text: the most of o200k, cl100k, p50k, r50k and the published Claude 2 vocabulary, counted once. */
const REAL_TOKENS: Record<keyof typeof denseTexts, number> = {
  hex: 1_193,
  base64: 1_551,
  minifiedJson: 1_568,
  digits: 435,
  letters: 1_171,
  punctuation: 832,
  rareChinese: 1_889,
  chinese: 1_380,
  korean: 1_440,
  thai: 2_100,
  emoji: 1_620,
  spaces: 800,
  prose: 321,
};

describe("upperBoundEstimator", () => {
  it.each(Object.entries(denseTexts))("is never below the real tokens of %s", (name, text) => {
    const real = REAL_TOKENS[name as keyof typeof denseTexts];
    expect(upperBoundEstimator.text(text)).toBeGreaterThanOrEqual(real);
  });

  it("is necessary: characters / 4 is far below for most of them", () => {
    const tooLow = Object.entries(denseTexts).filter(
      ([name, text]) => charsEstimator.text(text) < REAL_TOKENS[name as keyof typeof denseTexts],
    );
    expect(tooLow.length).toBeGreaterThan(10);
  });

  it("is the length in UTF-8, also of a lone surrogate, which is replaced before sending", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (text) => {
        expect(upperBoundEstimator.text(text)).toBe(Buffer.byteLength(text.toWellFormed()));
      }),
    );
    expect(upperBoundEstimator.text("\ud83d!")).toBe(Buffer.byteLength("\ufffd!"));
  });

  it("counts every part of a message, an image with its maximum cost, and nothing for unsent parts", () => {
    const call = assistant("ab", [{ id: "1", name: "read", arguments: { path: "x" } }]);
    expect(upperBoundEstimator.estimate(call)).toBeGreaterThan('ab read {"path":"x"}'.length);
    expect(upperBoundEstimator.estimate(picture())).toBeGreaterThanOrEqual(IMAGE_UPPER_BOUND);
    const excluded = {
      role: "bashExecution",
      command: "x",
      output: "y",
      excludeFromContext: true,
      timestamp: 1,
    } as const;
    expect(upperBoundEstimator.estimate(excluded)).toBe(0);
  });
});

describe("charsEstimator", () => {
  it("agrees with the size of a context", () => {
    const messages = [user("hello"), assistant("abc", [{ id: "1", name: "ls", arguments: {} }]), picture()];
    expect(contextTokens(messages).tokens).toBe(estimateTotal(messages));
  });
});

describe("wordEstimator", () => {
  it.each([
    ["two words", "hello world", 1.5],
    ["letters of any alphabet", "größe été слово", 2.25],
    ["Chinese, Japanese and Korean characters", "你好カナ한국", 3],
    ["digits and marks outside code, each", "v2: 10%", 0.75 + 5 * 0.25],
    [
      "identifiers and numbers inside a fence",
      "a\n```\nfoo_bar(3.14)\n```\nb",
      0.75 * 2 + 0.75 * 2 + 0.25 * 8,
    ],
    ["an unclosed fence, which goes to the end", "```ts\nlet x1", 0.75 * 3 + 0.25 * 3],
    ["nothing for spaces", " \n\t", 0],
  ])("weighs %s", (_, text, weight) => {
    expect(wordEstimator.text(text)).toBe(Math.ceil(weight));
  });

  it("counts calls and results as code, a message at a time, and adds 50 to a total", () => {
    const call = assistant("", [{ id: "1", name: "read_file", arguments: { path: "a1" } }]);
    // read_file, path and a1; braces, colon and four quotation marks.
    expect(wordEstimator.estimate(call)).toBe(Math.ceil(3 * 0.75 + 7 * 0.25));
    expect(wordEstimator.estimate(result("1", "x9 = 5"))).toBe(Math.ceil(2 * 0.75 + 0.25));
    expect(contextTokens([user("a"), user("b")], wordEstimator).tokens).toBe(1 + 1 + 50);
    expect(contextTokens([], wordEstimator).tokens).toBe(50);
  });
});

describe("every estimator", () => {
  it("gives a whole number that does not shrink when a text grows", () => {
    const estimators = fc.constantFrom(charsEstimator, wordEstimator, upperBoundEstimator);
    fc.assert(
      fc.property(estimators, fc.string(), fc.string(), (estimator, text, more) => {
        const whole = estimator.text(`${text}\n${more}`);
        expect(Number.isInteger(whole)).toBe(true);
        expect(whole).toBeGreaterThanOrEqual(estimator.text(text));
      }),
    );
  });
});

describe("the size of a context", () => {
  const messages = [
    user("x".repeat(40)),
    assistant("a", [], { usage: usage(900, 100) }),
    user("y".repeat(40)),
  ];

  it("uses the last usage and estimates later messages", () => {
    expect(contextTokens(messages)).toEqual({ tokens: 1_010, usageIndex: 1 });
  });

  it("is estimated if there is no usable usage", () => {
    expect(contextTokens(messages, charsEstimator, () => false)).toEqual({ tokens: 21, usageIndex: null });
  });

  it("skips usages that are zero, of failed answers, or missing", () => {
    const passedOver = [
      assistant("ok", [], { usage: usage(5, 5) }),
      assistant("zero", [], { usage: usage(0, 0) }),
      assistant("failed", [], { usage: usage(9, 9), stopReason: "error" }),
      assistant("old file", [], { usage: {} as never }),
      assistant("none"),
    ];
    expect(contextTokens(passedOver)).toMatchObject({ usageIndex: 0 });
  });
});
