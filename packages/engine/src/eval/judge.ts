// Separate from evaluate.ts: a trial without a judge needs no model.
// Judge of summaries by a model: how many questions can be answered from each summary, compared with no text and with
// the whole history.

import type { PolicyName } from "@espalier/compaction/policies";
import { EspalierError } from "@espalier/jsonl-stream";
import { type ContextMessage, isRecord } from "@espalier/session-tree";
import { escapeText, pricesOf, type TokenPrices, withRetry } from "@espalier/summarizer";
import { costOf } from "../reading/bills.ts";
import { formatCost } from "../reading/figures.ts";
import type { Provider } from "../turn/provider.ts";
import {
  answerTask,
  CATEGORIES,
  type Category,
  type CheckedProbes,
  checkProbes,
  chooseProbes,
  gradeTask,
  jsonIn,
  NEXT_CALL,
  PROBES_WANTED,
  type Probe,
  SYSTEM,
  WRITE_PROBES,
} from "./probes.ts";
import { type Cuts, cutsOf, type Round } from "./rounds.ts";
import { meanOf, namesIn, ReadMessage, Transcript } from "./transcript.ts";

/** A model that judges. */
export interface JudgeOptions {
  provider: Provider;
  /** Limit of the cost of all requests together, in US dollars. Default: no limit. */
  maxCost?: number | undefined;
  /** Prices of models; they override the known ones. */
  prices?: Readonly<Record<string, TokenPrices>> | undefined;
  /** Seed of the order in which answers are graded. Default 1. */
  seed?: number;
}

/** Summaries to judge: those of a policy and a summarizer, one for each cut. */
export interface Candidate {
  policy: PolicyName | null;
  summarizer: string;
  rounds: readonly Round[];
}

/** Judgement of one summary. */
export interface JudgedRow {
  policy: PolicyName | null;
  summarizer: string;
  /**
   * (summary − empty) / (full − empty) of the mean grades; null when the whole history answers no more than an empty
   * text.
   */
  score: number | null;
  /** Mean grades by category; null for a category without a counted probe. */
  categories: Readonly<Record<Category, number | null>>;
  /** Questions that can be answered from the whole history and not from the summary. */
  lost: readonly { category: Category; question: string }[];
  /** 1: the recorded call; 0.5: only its tool; 0: another tool; null: an unreadable answer, or no recorded call. */
  next: number | null;
}

/** Judgement of the summaries of one session, at one cut. */
export type JudgedSession = Awaited<ReturnType<Judge["judge"]>>;

/** Cost of a judge. */
export interface JudgeBill {
  /** Number of requests. */
  requests: number;
  /** Tokens of requests and answers together. */
  tokens: number;
  /** US dollars; null when the price of the model is unknown. */
  cost: number | null;
}

/** Estimated size of a judgement. */
export type JudgeForecast = ReturnType<typeof forecastJudgement>;

/** Maximum number of tokens of an answer. */
const MOST_OUTPUT = 8_000;

/** Share of the window for a record: estimates are rough, and the task is added. */
const SHARE_OF_WINDOW = 0.6;

/** Number of answers that are graded in one request. */
const GRADED_AT_ONCE = 40;

/** Assumed tokens of a summary, a question, an answer, a grade and a task, in this order. */
const SUMMARY_TOKENS = 2_200;
const QUESTION_TOKENS = 35;
const ANSWER_TOKENS = 40;
const GRADE_TOKENS = 14;
const TASK_TOKENS = 500;

/** Forecasts the requests for judging a session with this number of summaries. */
export function forecastJudgement(
  messages: readonly ContextMessage[],
  summaries: number,
  options: JudgeOptions & { keepTokens?: number | undefined },
) {
  const cut = judgedCut(cutsOf(new Transcript(messages), options.keepTokens));
  if (!cut) return { requests: 0, inputTokens: 0, outputTokens: 0 };
  const tokensOf = (read: readonly ReadMessage[]) =>
    read.reduce((sum, { text }) => sum + roughTokens(text), 0);
  const [history, tail] = [tokensOf(cut.summarized), tokensOf(cut.kept)];
  const parts = partsOf(cut.summarized, options.provider).length;
  const questions = PROBES_WANTED * QUESTION_TOKENS;
  const texts = summaries + 3;
  const batches = Math.ceil((PROBES_WANTED * texts) / GRADED_AT_ONCE);
  const requests = parts * 2 + 2 + summaries * 2 + batches;
  const inputTokens =
    requests * TASK_TOKENS +
    history * 2 +
    tail * (1 + summaries) +
    summaries * SUMMARY_TOKENS * 2 +
    texts * questions +
    PROBES_WANTED * texts * (QUESTION_TOKENS + ANSWER_TOKENS * 2);
  const outputTokens =
    parts * PROBES_WANTED * 120 +
    PROBES_WANTED * texts * (ANSWER_TOKENS + GRADE_TOKENS) +
    summaries * ANSWER_TOKENS * 3;
  return {
    /** Number of requests. */
    requests,
    /** Tokens of all requests. */
    inputTokens,
    /** Tokens of all answers. */
    outputTokens,
  };
}

/** Returns the middle one of a session's cuts; undefined for a session without a cut. */
const judgedCut = ({ cuts }: Cuts) => cuts[Math.floor(cuts.length / 2)];

/** Estimates the tokens of a text in any script: a character outside ASCII counts as one token. */
const roughTokens = (text: string): number => {
  const others = text.match(/[^\x20-\x7e\s]/g)?.length ?? 0;
  return Math.ceil((text.length - others) / 4 + others);
};

/** Judges sessions one after another, and sums up the cost. */
export class Judge {
  readonly #options: JudgeOptions;
  readonly #signal: AbortSignal | undefined;
  /** Sums of all sessions; `rubbish` is the number of unreadable answers. */
  readonly #spent: JudgeBill & { rubbish: number } = { requests: 0, tokens: 0, cost: 0, rubbish: 0 };

  constructor(options: JudgeOptions, signal?: AbortSignal) {
    this.#options = options;
    this.#signal = signal;
  }

  /**
   * Judges summaries of one cut: writes probes from the history, answers them from each text, and grades the answers in
   * an order that hides their source.
   *
   * @throws EspalierError `over-budget`; `bad-input` for a provider without a summarizer; the provider's errors
   */
  async judge(session: string, cuts: Cuts, written: readonly Candidate[]) {
    const before = { ...this.#spent };
    const { provider } = this.#options;
    const cut = judgedCut(cuts)!;
    const candidates = written.flatMap(({ rounds, ...of }) =>
      rounds.filter(({ point }) => point === cut.point).map((round) => ({ ...of, round })),
    );
    const parts = partsOf(cut.summarized, provider);
    const checked: CheckedProbes[] = [];
    for (const [part, messages] of parts.entries()) {
      const probes = await this.#ask(recordOf(messages), WRITE_PROBES, Array.isArray);
      checked.push(checkProbes(probes ?? [], messages, part));
    }
    const probes: Asked[] = chooseProbes(checked).map((probe) => ({ ...probe, grades: new Map() }));
    const answers: Answered[] = [];
    const sources = new Map<Source, readonly string[]>([
      ["empty", [textElement("")]],
      ["tail", [recordOf(newestOf(cut.kept, provider))]],
      ["full", parts.map(recordOf)],
      ...candidates.map(({ round }, at) => [at, [textElement(round.text)]] as const),
    ]);
    for (const [source, texts] of sources)
      for (const [part, text] of texts.entries()) {
        // Each question is asked about the part of the history that has its quotation.
        const here = probes.filter((probe) => texts.length === 1 || probe.part === part);
        for (const [probe, answer] of await this.#each(text, here, answerTask, readAnswer))
          answers.push({ source, probe, answer });
      }
    await this.#grade(answers);
    const asked = probes.filter(({ grades }) => grades.get("tail") !== 1);
    const counted = asked.filter(({ grades }) => grades.size === sources.size);
    const meanFor = (source: Source, of = counted) => meanOf(of.map(({ grades }) => grades.get(source)!));
    const [empty, full] = [meanFor("empty"), meanFor("full")];
    const rows: JudgedRow[] = [];
    for (const [at, { policy, summarizer, round }] of candidates.entries()) {
      const mean = meanFor(at);
      const inCategory = (name: Category) => counted.filter(({ category }) => category === name);
      const isAbove = mean !== null && empty !== null && full !== null && full > empty;
      rows.push({
        policy,
        summarizer,
        score: isAbove ? rounded((mean - empty) / (full - empty)) : null,
        categories: Object.fromEntries(
          CATEGORIES.map((category) => [category, rounded(meanFor(at, inCategory(category)))]),
        ) as JudgedRow["categories"],
        lost: counted
          .filter(({ grades }) => grades.get("full") === 1 && grades.get(at) === 0)
          .map(({ category, question }) => ({ category, question })),
        next: await this.#nextCall(round),
      });
    }
    return {
      session,
      judge: `${provider.provider}:${provider.modelId}`,
      /** Number of messages before the cut. */
      now: cut.now,
      /** Number of probes that counted. */
      probes: counted.length,
      /**
       * Numbers of probes that did not count, by reason: no literal quotation; unreadable; answered by the kept messages;
       * without an answer or a grade.
       */
      dropped: {
        unquoted: checked.reduce((sum, { unquoted }) => sum + unquoted, 0),
        unreadable: checked.reduce((sum, { unreadable }) => sum + unreadable, 0),
        inTail: probes.length - asked.length,
        ungraded: asked.length - counted.length,
      },
      /** Number of requests whose answer was not the requested JSON, even at the second attempt. */
      rubbish: this.#spent.rubbish - before.rubbish,
      /** Mean grade of an empty text, from 0 to 1; null without a counted probe. */
      empty: rounded(empty),
      /** Mean grade of the whole history, from 0 to 1; null without a counted probe. */
      full: rounded(full),
      rows,
      /** Cost of the judge for this session. */
      spent: {
        requests: this.#spent.requests - before.requests,
        tokens: this.#spent.tokens - before.tokens,
        cost: this.#spent.cost === null ? null : this.#spent.cost - (before.cost ?? 0),
      },
    };
  }

  /** Grades answers in shuffled order, under numbers, and gives the grades to their probes. */
  async #grade(answers: readonly Answered[]): Promise<void> {
    const order = shuffled(answers, this.#options.seed ?? 1);
    for (let from = 0; from < order.length; from += GRADED_AT_ONCE) {
      const batch = order.slice(from, from + GRADED_AT_ONCE).map((one, at) => ({ ...one, id: `a${at + 1}` }));
      for (const [{ source, probe }, grade] of await this.#each("", batch, gradeTask, readGrade))
        probe.grades.set(source, grade);
    }
  }

  /** Compares the call that the judge proposes from a summary and the kept messages with the recorded call. */
  async #nextCall({ text, kept, later }: Round): Promise<number | null> {
    const recorded = later.find(({ calls }) => calls.length > 0)?.calls[0];
    if (!recorded) return null;
    const record = `${textElement(text)}\n${recordOf(newestOf(kept, this.#options.provider))}`;
    const { tool, arguments: given } = (await this.#ask(record, NEXT_CALL, isRecord)) ?? {};
    if (typeof tool !== "string") return null;
    if (tool.toLowerCase() !== recorded.name.toLowerCase()) return 0;
    const mine = new Set(targetsIn(JSON.stringify(given ?? {})));
    const theirs = targetsIn(JSON.stringify(recorded.arguments));
    return theirs.length > 0 && theirs.filter((name) => mine.has(name)).length * 2 >= theirs.length ? 1 : 0.5;
  }

  /** Asks about items by their ids. Returns each item with the first readable value for it; leaves out the others. */
  async #each<Item extends { id: string }, Value>(
    material: string,
    items: readonly Item[],
    task: (items: readonly Item[]) => string,
    read: (said: Record<string, unknown>) => Value | undefined,
  ): Promise<[Item, Value][]> {
    if (items.length === 0) return [];
    const said = ((await this.#ask(material, task(items), Array.isArray)) ?? []).filter(isRecord);
    return items.flatMap((item) => {
      const answer = said.find((one) => String(one["id"]) === item.id && read(one) !== undefined);
      return answer ? [[item, read(answer)!]] : [];
    });
  }

  /** Requests JSON, with a second attempt when the answer has another form; undefined when that fails too. */
  async #ask<Value>(
    material: string,
    task: string,
    isRight: (value: unknown) => value is Value,
  ): Promise<Value | undefined> {
    for (const words of [task, `${task}\nAnswer with the JSON alone: no other word.`]) {
      const value = jsonIn(await this.#send(material, words));
      if (isRight(value)) return value;
    }
    this.#spent.rubbish++;
    return undefined;
  }

  async #send(material: string, task: string): Promise<string> {
    const { provider, maxCost } = this.#options;
    const input = roughTokens(material) + roughTokens(task) + roughTokens(SYSTEM);
    const before = this.#spent.cost ?? 0;
    if (maxCost !== undefined && before + (this.#priceOf(input, 0) ?? 0) > maxCost)
      throw new EspalierError(
        "over-budget",
        `The judge has cost ${formatCost(before)} and its next request would exceed --max-cost of $${maxCost}. Raise it, or judge fewer sessions.`,
      );
    if (!provider.summarizer)
      throw new EspalierError(
        "bad-input",
        `The provider of ${provider.modelId} has no summarizer, so it cannot judge; choose another judge.`,
      );
    const { text, usage } = await withRetry(provider.summarizer).summarize({
      purpose: "history",
      systemPrompt: SYSTEM,
      transcript: material,
      instructions: task,
      sections: [],
      messages: [],
      maxOutputTokens: Math.min(MOST_OUTPUT, provider.maxOutputTokens),
      ...(this.#signal ? { signal: this.#signal } : {}),
    });
    const read = usage ? usage.input + usage.cacheRead + usage.cacheWrite : input;
    const written = usage?.output ?? roughTokens(text);
    this.#spent.requests++;
    this.#spent.tokens += read + written;
    const cost = costOf(usage) || this.#priceOf(read, written);
    this.#spent.cost = cost === null || this.#spent.cost === null ? null : this.#spent.cost + cost;
    return text;
  }

  #priceOf(input: number, output: number): number | null {
    const prices = pricesOf(this.#options.provider, input, this.#options.prices);
    return prices ? (input * prices.input + output * prices.output) / 1_000_000 : null;
  }
}

/** Text from which probes are answered; a number means a candidate. */
type Source = "empty" | "tail" | "full" | number;

interface Asked extends Probe {
  grades: Map<Source, number>;
}

interface Answered {
  source: Source;
  probe: Asked;
  answer: string;
}

const readAnswer = ({ answer }: Record<string, unknown>) => (typeof answer === "string" ? answer : undefined);

const readGrade = ({ grade }: Record<string, unknown>) =>
  grade === 0 || grade === 0.5 || grade === 1 ? grade : undefined;

const rounded = (value: number | null): number | null => value && Math.round(value * 1_000) / 1_000;

const textElement = (text: string): string => `<text>\n${escapeText(text)}\n</text>`;

const recordOf = (messages: readonly ReadMessage[]): string =>
  `<record>\n${messages.map(({ role, text }) => `<message role="${role}">\n${escapeText(text)}\n</message>`).join("\n")}\n</record>`;

/** Maximum number of characters of one message, per token of the room. */
const LONGEST_SHARE = 0.5;

/**
 * Divides messages into parts that fit into this share of the room of a request; a message that is too long is cut to
 * its beginning.
 */
function partsOf(messages: readonly ReadMessage[], { contextWindow }: Provider, share = 1): ReadMessage[][] {
  const room = Math.floor(contextWindow * SHARE_OF_WINDOW);
  const longest = room * LONGEST_SHARE;
  const parts: ReadMessage[][] = [[]];
  let filled = 0;
  for (const message of messages) {
    const beginning = { role: "user", content: message.text.slice(0, longest), timestamp: 0 } as const;
    const fitting = roughTokens(message.text) <= longest ? message : new ReadMessage(beginning);
    const tokens = roughTokens(fitting.text) + 12;
    if (filled + tokens > room * share && filled > 0) {
      parts.push([]);
      filled = 0;
    }
    parts.at(-1)!.push(fitting);
    filled += tokens;
  }
  return parts;
}

/** Returns the newest messages that fit into one request together with a summary. */
const newestOf = (messages: readonly ReadMessage[], provider: Provider): ReadMessage[] =>
  partsOf(messages.toReversed(), provider, 0.8)[0]!.toReversed();

/** Returns the names and values by which calls are compared. */
function targetsIn(values: string): string[] {
  const names = [...namesIn(values)];
  return names.length > 0 ? names : (values.match(/[\p{L}\d]{3,}/gu) ?? []);
}

/** Shuffles items; the same seed gives the same order (mulberry32 and Fisher-Yates). */
function shuffled<Item>(items: readonly Item[], seed: number): Item[] {
  const order = [...items];
  let state = seed >>> 0;
  const random = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  for (let at = order.length - 1; at > 0; at--) {
    const other = Math.floor(random() * (at + 1));
    [order[at], order[other]] = [order[other]!, order[at]!];
  }
  return order;
}
