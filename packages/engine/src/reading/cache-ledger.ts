import {
  contentBlocks,
  isFailedAnswer,
  isMessage,
  messagesOf,
  modelChange,
  pathRows,
  type Tree,
  thinkingLevelChange,
} from "@espalier/session-tree";
import { pricesOf, type TokenPrices } from "@espalier/summarizer";
import {
  addBill,
  amount,
  type BilledCall,
  type CountedCall,
  callAt,
  nothingBilled,
  textSize,
} from "./bills.ts";
import {
  CACHE_LIFE_MS,
  CACHE_SLACK,
  type CacheCause,
  type Compared,
  type RequestDifference,
  RequestReader,
} from "./requests.ts";

/** Explanations of the causes in one or two sentences, for people. */
export const CACHE_REASONS: Readonly<Record<CacheCause, string>> = {
  model: "Each model has a cache of its own.",
  tools: "Tools come first in a request: different tools change everything after them.",
  "system-prompt":
    "The system prompt comes before all messages: a different one changes everything after it.",
  "thinking-level": "Providers cache each thinking level separately.",
  compaction: "The summary is written once, and requests are smaller from then on.",
  edit: "Everything after a changed message is written again.",
  hide: "Everything after a hidden message is written again.",
  pictures: "Everything after a message that lost its images is written again.",
  branch:
    "The request continued from an earlier entry: after a navigation, or because two programs write to this session.",
  "block-order": "The result came late, and its place is before messages that were already sent.",
  thinking:
    "Some models drop the thinking of a finished turn when the user sends a message; everything after it is written again.",
  pause: "Providers drop a cache entry that is not used for a few minutes.",
  restart:
    "The request grew only by new messages, but the cache had none of it: something before the first message changed, such as a program's start time in the system prompt.",
  unrecorded:
    "Nothing that the file records changed, but the cache had nothing: probably different tools or a different system prompt.",
  unknown: "Nothing in the file explains it.",
};

/** Request of one answer, compared with the previous request in the file. Sizes are tokens unless stated otherwise. */
export interface CacheCall {
  /** The entry of the answer. */
  entryId: string;
  /** Context of the previous call, as the provider counted it; null for the first call. */
  before: number | null;
  /** Tokens that the provider read from its cache. */
  read: number;
  /** Tokens that the provider wrote to its cache. */
  written: number;
  /**
   * Common beginning of both requests, which are rebuilt from the file. `bytes` counts their lines in the file,
   * `tokens` is characters / 4.
   */
  prefix: { bytes: number; tokens: number };
  /** First difference that the file records; null when the request only adds messages. Not every one breaks a cache. */
  difference: RequestDifference | null;
}

/** Call whose provider, which reports a cache, missed more than `CACHE_SLACK` tokens of the previous context. */
export interface CacheBreak {
  /** Entry of the answer. */
  call: string;
  /** Entry that broke the prefix: the compaction, the edit, the change, or the message after a pause. */
  entryId: string;
  /** Tokens that were paid again although the cache had had them. */
  tokens: number;
  /** US dollars that reading them from the cache would have saved; 0 when the price is unknown. */
  cost: number;
  cause: CacheCause;
}

/** Reads and writes of the prompt cache over a session, in file order. */
export interface CacheLedger {
  calls: CacheCall[];
  breaks: CacheBreak[];
  /**
   * US dollars: `total` of all answers, by known prices if the bill has no cost; `estimated`, the part computed from
   * prices; `lost` to breaks. `unpriced` is the number of answers of unknown price, which add nothing.
   */
  cost: { total: number; estimated: number; lost: number; unpriced: number };
  /** Sums of the breaks by cause, most expensive first. */
  byCause: Partial<Record<CacheCause, { breaks: number; tokens: number; cost: number }>>;
}

/** Options of a ledger: facts that no session file records. */
export interface CacheLedgerOptions {
  /** Prices by `provider/model` or model that override those of the session and of the catalogue. */
  prices?: Readonly<Record<string, TokenPrices>> | undefined;
  /** Lifetime of an unused cache entry in milliseconds. Default: five minutes. */
  lifeMs?: number;
}

/**
 * Compares each request of a session with the previous one in file order, and explains each break of the prompt cache.
 * Requests are rebuilt from the tree; a call that only adds messages takes time only for these. Pure.
 */
export function cacheLedger(tree: Tree, options: CacheLedgerOptions = {}): CacheLedger {
  const reader = new CacheReader(tree, options);
  while (reader.step());
  return reader.ledger;
}

/** Makes a ledger row by row, for programs that do other work in between. A session that grows is continued. */
export class CacheReader {
  readonly #tree: Tree;
  readonly #lifeMs: number;
  readonly #requests: RequestReader;
  readonly #prices: CacheLedgerOptions["prices"];
  readonly #rates = new Map<string, Rates>();
  readonly #calls: CacheCall[] = [];
  readonly #found: (RequestDifference & { at: CountedCall; rates: Rates; missed: number })[] = [];
  /** Last calls, newest first. */
  #earlier: CountedCall[] = [];
  #first: CountedCall | undefined;
  #row = 0;
  readonly #paid = nothingBilled();

  constructor(tree: Tree, { prices, lifeMs = CACHE_LIFE_MS }: CacheLedgerOptions = {}) {
    this.#tree = tree;
    this.#lifeMs = lifeMs;
    this.#requests = new RequestReader(tree);
    this.#prices = prices;
  }

  /** Reads the next row. Returns false when there is none. */
  step(): boolean {
    if (this.#row >= this.#tree.length) return false;
    const call = callAt(this.#tree, this.#row++);
    if (call) this.#add(call);
    return true;
  }

  /** Ledger of the rows read so far. */
  get ledger(): CacheLedger {
    const breaks = this.#found
      .filter(({ rates }) => rates.isCached)
      .map(({ at, rates, entryId, cause, missed }) => {
        const tokens = Math.min(missed, at.fresh + at.written);
        const cost = (priceOfMiss(at, rates, this.#prices) * tokens) / MILLION;
        return { call: at.entryId, entryId, tokens, cost, cause };
      });
    const { cost: total, estimated, unpriced } = this.#paid;
    const lost = breaks.reduce((sum, { cost }) => sum + cost, 0);
    const cost = { total, estimated, unpriced, lost };
    return { calls: [...this.#calls], breaks, cost, byCause: byCause(breaks) };
  }

  #add(call: CountedCall): void {
    const [before] = this.#earlier;
    this.#first ??= call;
    addBill(this.#paid, call.billed.usage, call.billed, this.#prices);
    const rates = this.#learn(call.billed);
    const compared = this.#requests.next(lastRowOf(this.#tree, call));
    this.#calls.push({
      entryId: call.entryId,
      before: before?.context ?? null,
      read: call.read,
      written: call.written,
      prefix: compared.prefix,
      difference: compared.difference ?? null,
    });
    const missed = before ? before.context - call.read : 0;
    if (before && missed > CACHE_SLACK)
      this.#found.push({ at: call, rates, missed, ...this.#explain(call, before, compared) });
    this.#earlier = [call, ...this.#earlier.slice(0, CALLS_LOOKED_BACK - 1)];
  }

  /** Returns the prices of a model, with those that the usage of a call shows. */
  #learn({ provider, model, usage }: BilledCall): Rates {
    const key = `${provider}/${model}`;
    const rates = this.#rates.get(key) ?? { isCached: false };
    this.#rates.set(key, rates);
    rates.isCached ||= amount(usage.cacheRead) + amount(usage.cacheWrite) > 0;
    for (const part of ["input", "cacheRead", "cacheWrite"] as const) rates[part] ??= rateOf(usage, part);
    return rates;
  }

  /** Finds the cause of a break. Order: change of the model, changes in the file, pause, remaining causes. */
  #explain(call: CountedCall, before: CountedCall, compared: Compared): RequestDifference {
    const tree = this.#tree;
    const { difference, firstNew, prefix, beforeTokens } = compared;
    const { provider, model } = call.billed;
    if (provider !== before.billed.provider || model !== before.billed.model) {
      const rows = pathRows(tree, tree.index.parent(call.row), before.row);
      const change = rows.findLast((row) => modelChange.is(tree.entryAt(row)));
      return { cause: "model", entryId: change === undefined ? call.entryId : tree.idAt(change) };
    }
    const isOld = call.sentAt - before.sentAt > this.#lifeMs;
    // An edit near the end is not the cause when the provider missed even earlier messages.
    const kept = beforeTokens > 0 ? (prefix.tokens / beforeTokens) * before.context : 0;
    if (difference && !(isOld && kept - call.read > before.context / 2)) return difference;
    if (isOld) return { cause: "pause", entryId: firstNew?.id ?? call.entryId };
    return this.#eliminate(call, before, compared);
  }

  /**
   * Explains a break from the sizes and times that providers and programs report, when the file records no difference
   * and the cache was not too old.
   */
  #eliminate(call: CountedCall, before: CountedCall, { firstNew, isLoop }: Compared): RequestDifference {
    const tree = this.#tree;
    const above = tree.index.parent(call.row);
    if (before.writtenAt - call.startedAt > CLOCK_MS) {
      let row = above;
      while (row > 0 && Date.parse(tree.entryAt(row).timestamp) > call.startedAt)
        row = tree.index.parent(row);
      return { cause: "branch", entryId: tree.idAt(Math.max(row, 0)) };
    }
    const entryId = firstNew?.id ?? call.entryId;
    if (isLoop) return { cause: "unknown", entryId };
    const isWhole = call.read <= this.#first!.context;
    const added = pathRows(tree, above, before.row);
    const grown = sizeOf(tree, added);
    if (fits(call, before, grown)) {
      if (!isWhole) return { cause: "unknown", entryId };
      const isByUser = added.some((row) => isMessage(tree.entryAt(row), "user"));
      return { cause: isByUser ? "restart" : "unrecorded", entryId };
    }
    if (call.context < before.context + before.answer[0] + grown[0] && thoughtBefore(tree, before.row))
      return { cause: "thinking", entryId };
    let answer = above;
    while (answer >= 0 && !isMessage(tree.entryAt(answer), "assistant")) answer = tree.index.parent(answer);
    const said = sizeOf(tree, pathRows(tree, above, answer));
    const other = this.#earlier.slice(1).find((one) => fits(call, one, said));
    if (other) return { cause: "branch", entryId: other.entryId };
    return { cause: isWhole ? "unrecorded" : "unknown", entryId };
  }
}

/** Maximum number of calls before a break that the request may continue, including the last one. */
const CALLS_LOOKED_BACK = 20;
/** Maximum difference between the clocks of two programs, and between the times of an answer and its line. */
const CLOCK_MS = 1_000;

function byCause(breaks: readonly CacheBreak[]): CacheLedger["byCause"] {
  const sums: CacheLedger["byCause"] = {};
  for (const { cause, tokens, cost } of breaks) {
    sums[cause] ??= { breaks: 0, tokens: 0, cost: 0 };
    sums[cause].breaks++;
    sums[cause].tokens += tokens;
    sums[cause].cost += cost;
  }
  const sorted = Object.entries(sums).sort(([, a], [, b]) => b.cost - a.cost || b.tokens - a.tokens);
  return Object.fromEntries(sorted);
}

/** Lower and upper limit of a size in tokens. */
type Range = CountedCall["answer"];

/** Returns whether `call` can continue `from`: its request, its answer, and a number of tokens in the range. */
function fits(call: CountedCall, from: CountedCall, [least, most]: Range): boolean {
  const grown = call.context - from.context;
  return grown >= from.answer[0] + least - ROUNDING && grown <= from.answer[1] + most + ROUNDING;
}

/** Tokens around a message that its text does not have. */
const ROUNDING = 16;

/**
 * Returns the lowest and the highest possible number of tokens of the messages in some rows: billed counts of answers,
 * estimates of other messages.
 */
function sizeOf(tree: Tree, rows: readonly number[]): Range {
  let [least, most] = [0, 0];
  for (const row of rows) {
    const entry = tree.entryAt(row);
    const call = callAt(tree, row);
    for (const message of messagesOf(entry)) {
      const [low, high] = call ? call.answer : isFailedAnswer(message) ? [0, 0] : textSize(message);
      least += low;
      most += high;
    }
  }
  return [least, most];
}

/** Returns the last row of a request: settings that changed while the request was running do not belong to it. */
function lastRowOf(tree: Tree, { row, startedAt }: CountedCall): number {
  let at = tree.index.parent(row);
  for (; at >= 0; at = tree.index.parent(at)) {
    const entry = tree.entryAt(at);
    if (!thinkingLevelChange.is(entry) && !modelChange.is(entry)) break;
    if (Date.parse(entry.timestamp) <= startedAt) break;
  }
  return at;
}

function thoughtBefore(tree: Tree, row: number): boolean {
  for (let at = row; at >= 0; at = tree.index.parent(at)) {
    const entry = tree.entryAt(at);
    if (isMessage(entry, "user")) return false;
    if (isMessage(entry, "assistant") && contentBlocks(entry.message).some(({ type }) => type === "thinking"))
      return true;
  }
  return false;
}

/** Prices that the usage of a model shows, in US dollars per million tokens. */
interface Rates extends Partial<Record<Priced, number | undefined>> {
  /** True when its provider has reported a cache. */
  isCached: boolean;
}

/** Part of a prompt with a price of its own. */
type Priced = "input" | "cacheRead" | "cacheWrite";

/**
 * Returns the additional price of tokens of a call that were not read from the cache, in US dollars per million. The
 * prices are those of the caller, else those that the usage of the model shows, else those of the catalogue.
 */
function priceOfMiss(
  { billed: { provider, model, usage }, fresh, written, context }: CountedCall,
  rates: Rates,
  prices: CacheLedgerOptions["prices"],
): number {
  const named = { provider, modelId: model };
  const known = pricesOf(named, context, prices);
  const own = known !== pricesOf(named, context) ? known : undefined;
  const priceOf = (part: Priced, billed?: number) => own?.[part] ?? billed ?? rates[part] ?? known?.[part];
  const [input, write] = (["input", "cacheWrite"] as const).map((part) => priceOf(part, rateOf(usage, part)));
  const read = priceOf("cacheRead");
  if (read === undefined) return 0;
  const share = written / (fresh + written || 1);
  const paid = share * (write ?? input ?? read) + (1 - share) * (input ?? write ?? read);
  return Math.max(0, paid - read);
}

const MILLION = 1_000_000;

/** Returns US dollars per million tokens from the recorded cost of a part; undefined when it shows no price. */
function rateOf(usage: BilledCall["usage"], part: Priced): number | undefined {
  const cost: unknown = usage.cost?.[part];
  const count = amount(usage[part]);
  return typeof cost === "number" && cost > 0 && count > 0 ? (cost / count) * MILLION : undefined;
}
