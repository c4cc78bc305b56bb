import {
  CHARS_PER_TOKEN,
  type ContextMessage,
  contentBlocks,
  estimateTokens,
  IMAGE_TOKENS,
  isFailedAnswer,
  isPicture,
  type Usage,
} from "@espalier/session-tree";
import { argumentJson } from "./transcript.ts";

/** Estimates numbers of tokens, without a request to a provider. */
export interface TokenEstimator {
  /** Name in settings. */
  readonly name: string;
  /** Tokens that are added to every total. */
  readonly overhead: number;
  /** Returns the estimated tokens of one neutral message. */
  estimate(message: ContextMessage): number;
  /** Returns the estimated tokens of a text. */
  text(text: string): number;
}

/**
 * Estimates characters / 4, rounded up per message: fast, and within a quarter of the real number for English prose and
 * code.
 */
export const charsEstimator: TokenEstimator = {
  name: "chars",
  overhead: 0,
  estimate: estimateTokens,
  text: (text) => Math.ceil(text.length / CHARS_PER_TOKEN),
};

// The weights of origins 004.
const WORD = 0.75;
const CJK = 0.5;
const CODE_TOKEN = 0.75;
const SPECIAL = 0.25;
const OVERHEAD = 50;
const FENCE = /^[ \t]*(`{3,}|~{3,})[^\n]*\n?/m;

/** Patterns of a CJK character, a token and any other visible character, in groups 1, 2 and 3. */
const patterns = () => {
  const cjk = "[\\p{sc=Han}\\p{sc=Hiragana}\\p{sc=Katakana}\\p{sc=Hangul}]";
  const letter = `(?!${cjk})\\p{L}`;
  const identifier = `(?:${letter}|[_$])(?:${letter}|[\\p{M}\\p{N}_$])*`;
  const number = "\\p{N}+(?:\\.\\p{N}+)*";
  const visible = "[^\\p{Z}\\p{C}]";
  return {
    code: new RegExp(`(${cjk})|(${identifier}|${number})|(${visible})`, "gu"),
    prose: new RegExp(`(${cjk})|((?:${letter}\\p{M}*)+)|(${visible})`, "gu"),
  };
};

/** The patterns for code and prose, made by a call without side effects, so that a bundler can leave them out. */
const IN = /* @__PURE__ */ patterns();

/**
 * Estimates by words: 0.75 for a word, 0.5 for a Chinese, Japanese or Korean character, 0.75 for a code token, 0.25 for
 * a special character, and 50 for a total. A word is a run of letters outside code; a code token is an identifier or a
 * number inside a fence, a call or a result; every other visible character is a special one. An image counts as
 * `IMAGE_TOKENS`. Rounded up per message and per text.
 */
export const wordEstimator: TokenEstimator = {
  name: "words",
  overhead: OVERHEAD,
  estimate(message) {
    const { prose, code, images } = messageParts(message);
    let weight = images * IMAGE_TOKENS;
    for (const text of prose) weight += weighProse(text);
    for (const text of code) weight += weigh(text, IN.code, CODE_TOKEN);
    return Math.ceil(weight);
  },
  text: (text) => Math.ceil(weighProse(text)),
};

/** Estimates prose with fences in it: the text between two fences (or after the last, unclosed one) is code. */
function weighProse(text: string): number {
  let weight = 0;
  let rest = text;
  let fence: string | undefined;
  while (rest !== "") {
    const found = fence === undefined ? FENCE.exec(rest) : closing(fence).exec(rest);
    const part = found ? rest.slice(0, found.index) : rest;
    weight += fence === undefined ? weigh(part, IN.prose, WORD) : weigh(part, IN.code, CODE_TOKEN);
    if (!found) break;
    weight += weigh(found[0], IN.code, CODE_TOKEN);
    rest = rest.slice(found.index + found[0].length);
    fence = fence === undefined ? found[1] : undefined;
  }
  return weight;
}

const closing = (fence: string) => new RegExp(`^[ \\t]*${fence}[ \\t]*(?:\\n|$)`, "m");

function weigh(text: string, classes: RegExp, tokenWeight: number): number {
  let weight = 0;
  for (const [, cjk, token] of text.matchAll(classes))
    weight += cjk !== undefined ? CJK : token !== undefined ? tokenWeight : SPECIAL;
  return weight;
}

/**
 * Maximum cost of an image in tokens: a provider scales larger ones down first (Anthropic: at most 2,576 pixels on the
 * longer side and about 4,800 tokens; other models cost less).
 */
export const IMAGE_UPPER_BOUND = 5_000;

/** Tokens around a message or a block that are not in a text: roles, separators, the names of JSON fields. */
const FRAME = 12;

const encoder = new TextEncoder();

/** Returns the number of bytes of a text in UTF-8; a lone surrogate counts as U+FFFD, which it becomes. */
const utf8Length = (text: string): number => encoder.encode(text).length;

/**
 * Estimates never less than the real number of tokens: a token of a byte-level vocabulary has at least one byte of
 * UTF-8, so no text has more tokens than bytes. English prose has about a quarter of that, minified JSON and base64 a
 * half to three quarters, rare Chinese characters nearly all. For decisions that would fail with too small a number,
 * such as whether a request fits. For numbers shown to people, use another estimator.
 */
export const upperBoundEstimator: TokenEstimator = {
  name: "upper-bound",
  overhead: FRAME,
  estimate(message) {
    const { prose, code, images } = messageParts(message);
    const blocks = prose.length + code.length + images;
    if (blocks === 0) return 0;
    const bytes = [...prose, ...code].reduce((sum, text) => sum + utf8Length(text), 0);
    return bytes + images * IMAGE_UPPER_BOUND + (1 + blocks) * FRAME;
  },
  text: utf8Length,
};

/**
 * Returns the size of a whole context: the last trusted usage that a provider reported plus an estimate of later
 * messages; an estimate of all messages when there is none. `usageIndex` is the index of the message with the usage, or
 * null.
 *
 * @param isTrusted returns whether the usage of the message at an index still describes the messages before it: false
 * before the last compaction or edit. Default: always
 */
export function contextTokens(
  messages: readonly ContextMessage[],
  estimator: TokenEstimator = charsEstimator,
  isTrusted: (index: number) => boolean = () => true,
): { tokens: number; usageIndex: number | null } {
  let following = 0;
  for (let index = messages.length - 1; index >= 0; index--) {
    const message = messages[index]!;
    if (message.role === "assistant" && !isFailedAnswer(message) && isTrusted(index)) {
      const tokens = message.usage ? usageTokens(message.usage) : 0;
      if (tokens > 0) return { tokens: tokens + following, usageIndex: index };
    }
    following += estimator.estimate(message);
  }
  return { tokens: following + estimator.overhead, usageIndex: null };
}

/**
 * Divides a neutral message for an estimator: prose, code (calls, results, commands), and the number of images. A shell
 * run excluded from the context has no parts.
 */
function messageParts(message: ContextMessage) {
  const parts = { prose: [] as string[], code: [] as string[], images: 0 };
  if (message.role === "bashExecution") {
    if (!message.excludeFromContext) parts.code.push(...texts(message.command, message.output));
    return parts;
  }
  const words = message.role === "toolResult" ? parts.code : parts.prose;
  for (const block of contentBlocks(message)) {
    if (block.type === "text") words.push(...texts(block.text));
    else if (block.type === "thinking") parts.prose.push(...texts(block.thinking));
    else if (isPicture(block)) parts.images++;
    else if (block.type === "toolCall") parts.code.push(...texts(block.name, argumentJson(block.arguments)));
  }
  if (message.role === "system") {
    parts.prose.push(...texts(...Object.values(message.sections ?? {})));
    if (message.toolsAdded) parts.code.push(...texts(argumentJson(message.toolsAdded)));
  }
  return parts;
}

const texts = (...values: unknown[]): string[] =>
  values.filter((value): value is string => typeof value === "string" && value !== "");

/**
 * Returns all tokens of a usage: `totalTokens` if the provider reported it, else the sum of its parts. A total of 0
 * counts as missing, because some programs write 0 when their provider reports none. Values that are not numbers count
 * as 0, because session files are not trusted.
 */
export function usageTokens(usage: Usage): number {
  const total = amount(usage.totalTokens);
  if (total > 0) return total;
  return amount(usage.input) + amount(usage.output) + amount(usage.cacheRead) + amount(usage.cacheWrite);
}

/**
 * Returns the sum of two usages, as {@link soundUsage}; undefined when both are missing. It has a cost if one of them
 * has.
 */
export function addUsage(first: Usage | undefined, second: Usage | undefined): Usage | undefined {
  const only = first ?? second;
  return first && second ? sumOf(first, second) : only && soundUsage(only);
}

function sumOf(first: Usage, second: Usage): Usage {
  const sum: Usage = {
    input: amount(first.input) + amount(second.input),
    output: amount(first.output) + amount(second.output),
    cacheRead: amount(first.cacheRead) + amount(second.cacheRead),
    cacheWrite: amount(first.cacheWrite) + amount(second.cacheWrite),
    totalTokens: usageTokens(first) + usageTokens(second),
  };
  if (first.cost || second.cost) sum.cost = addCost(first.cost ?? {}, second.cost ?? {});
  return sum;
}

const NO_USAGE: Usage = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0 };

/** Returns the sum of usages, as {@link soundUsage}; undefined when there is none. */
export const sumUsage = (usages: readonly (Usage | undefined)[]): Usage | undefined =>
  usages.reduce<Usage | undefined>((sum, usage) => addUsage(sum, usage), undefined);

/**
 * Returns a usage that a log can store: numbers that JSON cannot express (NaN, Infinity) become 0, and such a total
 * becomes the sum of the parts. A usage without such numbers is returned unchanged.
 */
export function soundUsage(usage: Usage): Usage {
  const { input, output, cacheRead, cacheWrite, totalTokens, cost } = usage;
  const given = [input, output, cacheRead, cacheWrite, totalTokens, ...Object.values(cost ?? {})];
  if (given.every((value) => value === undefined || Number.isFinite(value))) return usage;
  return { ...usage, ...sumOf(usage, NO_USAGE) };
}

export const amount = (value: unknown): number =>
  typeof value === "number" && Number.isFinite(value) ? value : 0;

type Cost = NonNullable<Usage["cost"]>;

function addCost(first: Cost, second: Cost): Cost {
  const sum: Cost = {};
  for (const part of ["input", "output", "cacheRead", "cacheWrite", "total"] as const) {
    if (first[part] !== undefined || second[part] !== undefined) {
      sum[part] = amount(first[part]) + amount(second[part]);
    }
  }
  return sum;
}

/** Prices in US dollars per million tokens; an absent price equals `input`. */
export interface TokenPrices {
  /** Price of prompt tokens that did not come from a cache. */
  input: number;
  /** Price of tokens of the answer, including thinking. */
  output: number;
  /** Price of prompt tokens read from the provider's cache. */
  cacheRead?: number;
  /** Price of prompt tokens written to the provider's cache, with a lifetime of five minutes. */
  cacheWrite?: number;
}

/**
 * A cache entry with a lifetime of one hour costs twice the input price; `cacheWrite` is the price for five minutes.
 */
const HOUR_WRITE_FACTOR = 2;

/**
 * Returns a usage with its cost in US dollars; the unchanged usage when there are no prices.
 *
 * @param hourly tokens of `cacheWrite` with a lifetime of one hour
 */
export function withCost(usage: Usage, prices: TokenPrices | undefined, hourly = 0): Usage {
  if (!prices) return usage;
  const { input, output, cacheRead = input, cacheWrite = input } = prices;
  const cost = {
    input: dollars(usage.input, input),
    output: dollars(usage.output, output),
    cacheRead: dollars(usage.cacheRead, cacheRead),
    cacheWrite: dollars(usage.cacheWrite - hourly, cacheWrite) + dollars(hourly, input * HOUR_WRITE_FACTOR),
  };
  return { ...usage, cost: { ...cost, total: cost.input + cost.output + cost.cacheRead + cost.cacheWrite } };
}

const dollars = (tokens: number, perMillion: number) => (tokens * perMillion) / 1_000_000;
