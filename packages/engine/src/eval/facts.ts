// Facts that a context keeps or loses when a summary replaces its older messages: rules, values, inventions, and the
// cost of later requests.
import type { Rule } from "@espalier/compaction";
import { isFailedAnswer, type Settings } from "@espalier/session-tree";
import { DEFAULT_ANTHROPIC_MODEL, pricesOf, type TokenPrices, unescapeText } from "@espalier/summarizer";
import { type Cut, NEXT_CALLS, withoutTags } from "./measures.ts";
import { namesIn, type ReadMessage, type Transcript, wordsIn } from "./transcript.ts";

/** A rule of the user, and the first round after which the model no longer reads it. */
export interface RuleRound {
  text: string;
  /** Round in which it was stated, from 1. */
  stated: number;
  /** First round after which the model does not read it, from 1; null while the model reads it. */
  fell: number | null;
}

/** The rules of a session, round by round. */
export class RuleWatch {
  readonly #rounds: Map<string, RuleRound> = new Map();
  readonly #held: { held: number; of: number }[] = [];

  /** Adds a round: the rules that apply at its end, and all texts that the model reads then. */
  add(rules: readonly Rule[], texts: readonly string[]): void {
    const round = this.#held.length + 1;
    const read = texts.map(plain).join("\n");
    let held = 0;
    for (const { text, from, kind } of rules) {
      const key = `${from.entryId}:${from.start}`;
      const known = this.#rounds.get(key) ?? { text, stated: round, fell: null };
      this.#rounds.set(key, known);
      // A refused call has its own form in a summary: its parts may be in several lines.
      if (isIn(read, text, kind === "refused")) held++;
      else known.fell ??= round;
    }
    this.#held.push({ held, of: rules.length });
  }

  get figures(): RuleFigures {
    const last = this.#held.at(-1);
    return {
      held: last?.held ?? 0,
      of: last?.of ?? 0,
      byRound: this.#held,
      fallen: [...this.#rounds.values()].filter(({ fell }) => fell !== null),
    };
  }
}

/** Numbers of rules that are still valid, and of those that the model still reads. */
export interface RuleFigures {
  /** Rules that the model reads after the last round. */
  held: number;
  /** Rules that are valid after the last round. */
  of: number;
  /** `held` and `of` after each round. */
  byRound: readonly Pick<RuleFigures, "held" | "of">[];
  /** Valid rules that the model did not read after at least one round. */
  fallen: readonly RuleRound[];
}

/** Normalizes a text for comparison: without escapes, marks, capitals and runs of blanks. */
const plain = (text: string): string =>
  unescapeText(text)
    .toLowerCase()
    .replace(/[*_`"'“”‘’]/g, "")
    .replace(/[^\S\n]+/g, " ");

/** Minimum share of a rule's words that one line must have. */
const SHARE_OF_RULE = 0.8;

function isIn(read: string, rule: string, isAnywhere: boolean): boolean {
  const wanted = plain(rule).replace(/\s+/g, " ").trim();
  if (read.includes(wanted)) return true;
  const words = [...new Set(wordsIn(wanted))];
  if (words.length < 2) return false;
  // Only lines with the rule's longest word are checked.
  const longest = words.reduce((long, word) => (word.length > long.length ? word : long));
  return (isAnywhere ? [read] : read.split("\n")).some((line) => {
    if (!line.includes(longest)) return false;
    const has = new Set(wordsIn(line));
    return words.filter((word) => has.has(word)).length >= words.length * SHARE_OF_RULE;
  });
}

/** Values that changed during a session, compared with their values in a text. */
export interface ValueFigures {
  /** Number of names that had at least two values. */
  updated: number;
  /** Number of `updated` names that the text has with their newest value. */
  current: number;
  /** Number of `updated` names that the text has only with an older value. */
  stale: number;
}

interface Assignment {
  at: number;
  key: string;
  value: string;
}

/** Pattern of an assignment: a name, an equals sign, and a number, a switch or a quoted word. */
const ASSIGNMENT =
  /(?<![\w.-])((?=\w{0,60}(?:_|[a-z][A-Z]|[A-Z]{4}))[A-Za-z_]\w{3,60}|port|timeout|version|level|region|branch)["']?[^\S\n]{0,2}(?:=|:|is now|is|to)[^\S\n]{0,2}(?:(true|false|\d[\w.:%]{0,30})|["'`]([^"'`\n]{1,40})["'`])/g;

/** Maximum number of characters of each message that are searched for values. */
const VALUES_READ = 200_000;

/** Returns the values that users and the agent wrote, in order. Output of tools is not included. */
export function assignmentsIn(transcript: Transcript): Assignment[] {
  return transcript.messages.flatMap((message, at) => {
    if (message.role !== "user" && message.role !== "assistant") return [];
    return [...message.text.slice(0, VALUES_READ).matchAll(ASSIGNMENT)].map(
      ([, key, plainValue, quoted]) => ({
        at,
        key: key!,
        value: (plainValue ?? quoted ?? "").replace(/[.:]+$/, ""),
      }),
    );
  });
}

/** Measures the values in a text that had changed before the cut. Values in a kept message do not count. */
export function valuesIn(text: string, assignments: readonly Assignment[], { now, kept }: Cut): ValueFigures {
  const values = new Map<string, string[]>();
  for (const { at, key, value } of assignments) {
    if (at >= now) break;
    const known = values.get(key) ?? [];
    if (known.at(-1) !== value) values.set(key, [...known, value]);
  }
  const inSight = new Set(kept);
  for (const { at, key } of assignments) if (inSight.has(at)) values.delete(key);
  const updated = [...values].filter(([, told]) => new Set(told).size > 1);
  const lines = text.split("\n");
  const figures = { updated: updated.length, current: 0, stale: 0 };
  for (const [key, told] of updated) {
    const near = lines.filter((line) => line.includes(key));
    const tells = (value: string) => near.some((line) => hasValue(line, value));
    if (tells(told.at(-1)!)) figures.current++;
    else if (told.some(tells)) figures.stale++;
  }
  return figures;
}

function hasValue(line: string, value: string): boolean {
  for (let at = line.indexOf(value); at >= 0; at = line.indexOf(value, at + 1))
    if (!/[\w.]/.test(line[at - 1] ?? "") && !/\w/.test(line[at + value.length] ?? "")) return true;
  return false;
}

/** Words of the summarizing program itself: headings, and marks of omissions. */
const OWN_WORDS = /^#{1,6} .*$|^[A-Z][A-Z ]{8,60}:?$|\[…[^\]\n]*\]|\(\d+ (?:[a-z ]+ )?(?:left out|more)\)/gm;

/** Returns names, numbers and paths in a summary that no message before the cut has. */
export function inventionsIn(text: string, transcript: Transcript, { now }: Cut): string[] {
  const said = unescapeText(withoutTags(text)).replace(OWN_WORDS, " ").replaceAll("…", " ");
  const numbers = said.match(/(?<![\w.,-])\d{2,12}(?:\.\d{1,6})?(?![\w.,-]*\w)/g) ?? [];
  const isThere = (name: string) => {
    const place = transcript.firstWith(name);
    return place >= 0 && place < now;
  };
  return [...new Set([...namesIn(said), ...numbers])]
    .filter((name) => !isThere(name) && !isThere(name.replace(/^(?:\.{1,2}\/|~\/|\/)+/, "")))
    .sort();
}

/**
 * Counts the tokens of the next calls' results that the summarized messages had and that neither the summary nor a kept
 * message has: the agent fetched them again. Each line counts once.
 */
export function refetchedTokens(
  text: string,
  transcript: Transcript,
  { now, kept, summarized }: Cut,
): number {
  const hadLines = lineSet(summarized.map((at) => transcript.messages[at]!));
  const inSight = lineSet(kept.map((at) => transcript.messages[at]!));
  let calls = 0;
  let characters = 0;
  for (const message of transcript.messages.slice(now)) {
    calls += message.calls.length;
    if (message.role === "toolResult")
      for (const line of message.lines)
        if (hadLines.has(line) && !inSight.has(line)) {
          inSight.add(line);
          if (!text.includes(line)) characters += line.length + 1;
        }
    if (calls >= NEXT_CALLS) break;
  }
  return Math.ceil(characters / 4);
}

function lineSet(messages: readonly ReadMessage[]): Set<string> {
  const lines = new Set<string>();
  for (const message of messages) for (const line of message.lines) lines.add(line);
  return lines;
}

/** Requests whose price is forecast. */
const NEXT_REQUESTS = 10;

/**
 * Returns the price in US dollars of the recorded requests after this cut. The first one writes the whole context to
 * the prompt cache; each later one reads it from the cache and writes only new messages. System prompt and tools are
 * not included.
 *
 * @param contextTokens characters / 4 of the context directly after the cut
 */
export function priceOfNext(contextTokens: number, transcript: Transcript, { now }: Cut): number {
  const prices = pricesIn(transcript);
  let [prompt, cached, requests, price] = [contextTokens, 0, 0, 0];
  for (const message of transcript.messages.slice(now)) {
    if (message.role === "assistant" && !isFailedAnswer(message.message)) {
      const anew = prompt - cached;
      price += cached * prices.cacheRead + anew * prices.cacheWrite + message.tokens * prices.output;
      cached = prompt;
      if (++requests === NEXT_REQUESTS) break;
    }
    prompt += message.tokens;
  }
  return price / 1_000_000;
}

/** Returns the prices of the model that answered last; if they are unknown, those of the default model of summaries. */
function pricesIn(transcript: Transcript): Required<TokenPrices> {
  const answer = transcript.messages.findLast(({ role }) => role === "assistant")?.message;
  const model: Settings["model"] =
    answer?.role === "assistant" && typeof answer.provider === "string" && typeof answer.model === "string"
      ? { provider: answer.provider, modelId: answer.model }
      : null;
  return pricesOf(model) ?? pricesOf({ provider: "anthropic", modelId: DEFAULT_ANTHROPIC_MODEL })!;
}
