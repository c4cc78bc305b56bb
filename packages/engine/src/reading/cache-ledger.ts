import { type Entry, modelChange, type Tree } from "@espalier/session-tree";
import { type AnthropicPrices, pricesOf } from "@espalier/summarizer";
import { type BilledCall, billedCallAt, costOf } from "./bills.ts";
import { type CacheCause, type Compared, type RequestDifference, RequestReader } from "./requests.ts";

/** Causes in words for people. */
export const CACHE_CAUSES: Readonly<Record<CacheCause, string>> = {
  model: "another model",
  tools: "other tools",
  "system-prompt": "another system prompt",
  "thinking-level": "another thinking level",
  compaction: "a compaction",
  edit: "an edit",
  hide: "a hidden entry",
  pictures: "pictures left out",
  branch: "another branch",
  "block-order": "a late result",
  pause: "a pause",
  unrecorded: "system prompt or tools, not recorded",
  unknown: "unknown",
};

/** Request of one answer, beside the request before it in the file. Sizes are tokens unless they say otherwise. */
export interface CacheCall {
  /** The entry of the answer. */
  entryId: string;
  /** Context of the call before, as the provider counted it; null for the first call. */
  before: number | null;
  /** Tokens that the provider read from its cache. */
  read: number;
  /** Tokens that it wrote to its cache. */
  written: number;
  /** Beginning that both requests share, both built again from the file. Bytes are those of their lines in the file, tokens characters / 4. */
  prefix: { bytes: number; tokens: number };
  /** The first difference that the file records; null where the request only goes on. Not every one breaks a cache. */
  difference: RequestDifference | null;
}

/** Call whose provider missed more than {@link CACHE_SLACK} tokens of the context before. */
export interface CacheBreak {
  /** The entry of the answer. */
  call: string;
  /** The entry that broke the prefix: the compaction, the edit, the change, or the words that ended a pause. */
  entryId: string;
  /** Tokens that were paid for anew although the cache had had them. */
  tokens: number;
  /** US dollars that reading them from the cache would have saved; 0 where the price is unknown. */
  cost: number;
  cause: CacheCause;
}

/** Reads and writes of the prompt cache over a session, in file order. */
export interface CacheLedger {
  calls: CacheCall[];
  breaks: CacheBreak[];
  /** US dollars: of all answers, and lost to breaks. */
  cost: { total: number; lost: number };
  /** Sums of the breaks, the dearest cause first. */
  byCause: Partial<Record<CacheCause, { breaks: number; tokens: number; cost: number }>>;
}

/** Facts of a ledger that no session file records. */
export interface CacheLedgerOptions {
  /** Own prices by `provider/model` or model, before those of the session and of the catalogue. */
  prices?: Readonly<Record<string, AnthropicPrices>> | undefined;
  /** Life of an unused cache entry in milliseconds. Default: five minutes. */
  lifeMs?: number;
}

/** Tokens that a call may miss without a break: providers cache in steps, and not the newest words. */
export const CACHE_SLACK = 2_000;

/** Life of a cache entry that is not used, in milliseconds: the default of Anthropic and the least of OpenAI. */
export const CACHE_LIFE_MS = 300_000;

/**
 * Compares each request of a session with the one before it, in file order, and explains each break of the prompt
 * cache. Requests are built again from the tree: a call that only goes on costs what it adds. Pure.
 */
export function cacheLedger(tree: Tree, options: CacheLedgerOptions = {}): CacheLedger {
  const reader = new CacheReader(tree, options);
  while (reader.step());
  return reader.ledger;
}

/** Makes a ledger row by row, for programs that have other work meanwhile; a session that grows is continued. */
export class CacheReader {
  readonly #tree: Tree;
  readonly #lifeMs: number;
  readonly #requests: RequestReader;
  readonly #rates: Rates;
  readonly #calls: CacheCall[] = [];
  readonly #found: { at: CountedCall; entryId: string; cause: CacheCause; missed: number }[] = [];
  #row = 0;
  #total = 0;
  #before: CountedCall | undefined;

  constructor(tree: Tree, { prices, lifeMs = CACHE_LIFE_MS }: CacheLedgerOptions = {}) {
    this.#tree = tree;
    this.#lifeMs = lifeMs;
    this.#requests = new RequestReader(tree);
    this.#rates = new Rates(prices);
  }

  /** Reads the next row. False, and nothing is read, where there is none. */
  step(): boolean {
    if (this.#row >= this.#tree.length) return false;
    const call = callAt(this.#tree, this.#row++);
    if (call) this.#add(call);
    return true;
  }

  /** The ledger of the rows that were read. */
  get ledger(): CacheLedger {
    const breaks = this.#found
      .filter(({ at }) => this.#rates.isCached(at.billed))
      .map(({ at, entryId, cause, missed }) => {
        const tokens = Math.min(missed, at.fresh + at.written);
        return { call: at.entryId, entryId, tokens, cost: this.#rates.lost(at, tokens), cause };
      });
    const cost = { total: this.#total, lost: sumOf(breaks, "cost") };
    return { calls: [...this.#calls], breaks, cost, byCause: byCause(breaks) };
  }

  #add(call: CountedCall): void {
    const tree = this.#tree;
    const before = this.#before;
    this.#before = call;
    this.#total += costOf(call.billed.usage);
    this.#rates.learn(call.billed);
    const compared = this.#requests.next(tree.index.parent(call.row));
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
      this.#found.push({
        at: call,
        missed,
        ...explain({ tree, call, before, compared, lifeMs: this.#lifeMs }),
      });
  }
}

const sumOf = (breaks: readonly CacheBreak[], key: "cost" | "tokens"): number =>
  breaks.reduce((sum, one) => sum + one[key], 0);

function byCause(breaks: readonly CacheBreak[]): CacheLedger["byCause"] {
  const causes = [...new Set(breaks.map(({ cause }) => cause))];
  const sums = causes.map((cause) => {
    const of = breaks.filter((one) => one.cause === cause);
    return [cause, { breaks: of.length, tokens: sumOf(of, "tokens"), cost: sumOf(of, "cost") }] as const;
  });
  return Object.fromEntries(sums.sort(([, a], [, b]) => b.cost - a.cost || b.tokens - a.tokens));
}

/** An answer that a provider counted tokens for. */
export interface CountedCall {
  row: number;
  entryId: string;
  billed: BilledCall;
  /** Tokens of its prompt. */
  context: number;
  /** Tokens of its prompt at the full price. */
  fresh: number;
  /** Tokens of its prompt that the cache had. */
  read: number;
  /** Tokens of its prompt that were written to the cache. */
  written: number;
  /** Time of the request in epoch milliseconds: of the last entry that was written before the answer. */
  sentAt: number;
}

/** The newest answer in the file that a provider counted tokens for; undefined where there is none. */
export function lastCall(tree: Tree): CountedCall | undefined {
  for (let row = tree.length - 1; row >= 0; row--) {
    const call = callAt(tree, row);
    if (call) return call;
  }
  return undefined;
}

function callAt(tree: Tree, row: number): CountedCall | undefined {
  const billed = billedCallAt(tree, row);
  if (billed?.kind !== "answer") return undefined;
  const { usage } = billed;
  const [fresh, read, written] = [
    tokensIn(usage.input),
    tokensIn(usage.cacheRead),
    tokensIn(usage.cacheWrite),
  ];
  const context = fresh + read + written;
  if (context + tokensIn(usage.output) === 0) return undefined;
  const { id: entryId, timestamp } = tree.entryAt(row);
  const sentAt = Date.parse(row > 0 ? tree.entryAt(row - 1).timestamp : timestamp);
  return { row, entryId, billed, context, fresh, read, written, sentAt };
}

const tokensIn = (value: unknown): number =>
  typeof value === "number" && value > 0 && value <= Number.MAX_SAFE_INTEGER ? value : 0;

/** Finds the cause of a break: a change of the model, what the file records, a pause, and last by elimination. */
function explain(given: {
  tree: Tree;
  call: CountedCall;
  before: CountedCall;
  compared: Compared;
  lifeMs: number;
}): RequestDifference {
  const { tree, call, before, compared, lifeMs } = given;
  const { difference, firstNew, isLoop, prefix, beforeTokens } = compared;
  const { provider, model } = call.billed;
  if (provider !== before.billed.provider || model !== before.billed.model) {
    const change = nearest(tree, call.row, before.row, modelChange.is);
    return { cause: "model", entryId: change?.id ?? call.entryId };
  }
  const entryId = firstNew?.id ?? call.entryId;
  const isOld = call.sentAt - before.sentAt > lifeMs;
  // An edit near the end explains little where the provider had not even what comes before it.
  const kept = beforeTokens > 0 ? (prefix.tokens / beforeTokens) * before.context : 0;
  if (difference && !(isOld && kept - call.read > before.context / 2)) return difference;
  if (isOld) return { cause: "pause", entryId };
  return { cause: call.read === 0 && !isLoop ? "unrecorded" : "unknown", entryId };
}

/** The newest entry of a kind on the path of a row, above `downTo`. */
function nearest(tree: Tree, row: number, downTo: number, is: (entry: Entry) => boolean): Entry | undefined {
  for (let at = tree.index.parent(row); at > downTo; at = tree.index.parent(at))
    if (is(tree.entryAt(at))) return tree.entryAt(at);
  return undefined;
}

/** Prices that the bills of a model show. */
interface Learnt {
  read?: number | undefined;
  write?: number | undefined;
  input?: number | undefined;
  /** True once its provider reported a cache. */
  cached: boolean;
}

/** Prices of a session's models: own ones, else those of its own bills, else those of the catalogue. */
class Rates {
  readonly #own: CacheLedgerOptions["prices"];
  readonly #learnt = new Map<string, Learnt>();

  constructor(own: CacheLedgerOptions["prices"]) {
    this.#own = own;
  }

  /** Reads the prices that a bill shows. */
  learn({ provider, model, usage }: BilledCall): void {
    const key = `${provider}/${model}`;
    const rate = this.#learnt.get(key) ?? { cached: false };
    this.#learnt.set(key, rate);
    rate.cached ||= tokensIn(usage.cacheRead) + tokensIn(usage.cacheWrite) > 0;
    rate.read ??= rateOf(usage.cost?.cacheRead, usage.cacheRead);
    rate.write ??= rateOf(usage.cost?.cacheWrite, usage.cacheWrite);
    rate.input ??= rateOf(usage.cost?.input, usage.input);
  }

  /** Returns whether the provider reports a cache for this model at all. */
  isCached({ provider, model }: BilledCall): boolean {
    return this.#learnt.get(`${provider}/${model}`)?.cached === true;
  }

  /** US dollars that so many tokens of a call cost more than from the cache. */
  lost({ billed, fresh, written, context }: CountedCall, tokens: number): number {
    const { provider, model, usage } = billed;
    const named = { provider, modelId: model };
    const known = pricesOf(named, context, this.#own);
    const own = known !== pricesOf(named, context) ? known : undefined;
    const learnt = this.#learnt.get(`${provider}/${model}`);
    const input = own?.input ?? rateOf(usage.cost?.input, fresh) ?? learnt?.input ?? known?.input;
    const write =
      own?.cacheWrite ?? rateOf(usage.cost?.cacheWrite, written) ?? learnt?.write ?? known?.cacheWrite;
    const read = own?.cacheRead ?? learnt?.read ?? known?.cacheRead;
    if (read === undefined) return 0;
    const share = written / (fresh + written || 1);
    const paid = share * (write ?? input ?? read) + (1 - share) * (input ?? write ?? read);
    return (Math.max(0, paid - read) * tokens) / MILLION;
  }
}

const MILLION = 1_000_000;

/** US dollars for a million tokens, as a bill has them; undefined where it does not show any. */
function rateOf(cost: unknown, tokens: unknown): number | undefined {
  const count = tokensIn(tokens);
  return typeof cost === "number" && cost > 0 && count > 0 ? (cost / count) * MILLION : undefined;
}
