import type { CompactionDetails } from "@espalier/compaction";
import { jsonText } from "@espalier/jsonl-stream";
import {
  type ContextMessage,
  custom,
  type Entry,
  estimateTokens,
  isFailedAnswer,
  isMessage,
  isRecord,
  message,
  pathRows,
  roleAt,
  type Tree,
  type Usage,
} from "@espalier/session-tree";
import { pricesOf, type TokenPrices, usageTokens } from "@espalier/summarizer";

/** Sum of usage: tokens, and US dollars. */
export interface UsageTotals {
  /** Number of billed calls. */
  calls: number;
  /** Tokens of prompts at full price. */
  input: number;
  /** Tokens of answers, including thinking. */
  output: number;
  /** Tokens of prompts that were read from a provider's cache. */
  cacheRead: number;
  /** Tokens of prompts that were written to a provider's cache. */
  cacheWrite: number;
  /** Sum of all these tokens, or the provider's own total if it reported one. */
  totalTokens: number;
  /** US dollars, including estimates; calls of unknown price add nothing. */
  cost: number;
  /** Part of `cost` that no bill records, in US dollars: tokens at the caller's prices or those of the catalogue. */
  estimated: number;
  /** Number of calls of unknown price. */
  unpriced: number;
}

/** Prices by `provider/model` or by model that override those of the catalogue. */
export type OwnPrices = Readonly<Record<string, TokenPrices>> | undefined;

/** Usage that one entry bills. A summary may need several calls of a model: they are one `BilledCall`, with their sum. */
export interface BilledCall {
  /** `answer`; for summaries and failed work the kind: `compaction`, `branch_summary`, … */
  kind: string;
  provider: string;
  model: string;
  usage: Usage;
}

/** Returns empty sums: no call, no token, no cost. */
export const nothingBilled = (): UsageTotals => ({
  calls: 0,
  input: 0,
  output: 0,
  cacheRead: 0,
  cacheWrite: 0,
  totalTokens: 0,
  cost: 0,
  estimated: 0,
  unpriced: 0,
});

/**
 * Adds one bill to a sum, in place.
 *
 * @param model the model of the call; a bill without cost and without model is of unknown price
 */
export function addBill(
  sum: UsageTotals,
  usage: Usage,
  model?: Pick<BilledCall, "provider" | "model">,
  prices?: OwnPrices,
): void {
  sum.calls++;
  for (const part of ["input", "output", "cacheRead", "cacheWrite"] as const)
    sum[part] += amount(usage[part]);
  sum.totalTokens += usageTokens(usage);
  const price = priceOf({ usage, ...model }, prices);
  if (!price) sum.unpriced++;
  else sum.cost += price.cost;
  if (price?.isEstimated) sum.estimated += price.cost;
}

/** Price of a call in US dollars. */
export interface CallPrice {
  /** US dollars. */
  cost: number;
  /** True when the bill records no cost, and the price was computed from its tokens. */
  isEstimated: boolean;
}

/**
 * Returns the price of a call: the cost that its bill records, or its tokens at known prices; undefined when neither is
 * known.
 */
export function priceOf(
  { provider, model, usage }: Pick<BilledCall, "usage"> & Partial<BilledCall>,
  own?: OwnPrices,
): CallPrice | undefined {
  const recorded = costOf(usage);
  if (recorded > 0) return { cost: recorded, isEstimated: false };
  const [input, read, written] = [amount(usage.input), amount(usage.cacheRead), amount(usage.cacheWrite)];
  const named = { provider: text(provider), modelId: text(model) };
  const prices = model === undefined ? undefined : pricesOf(named, input + read + written, own);
  if (!prices) return undefined;
  const prompt = input * prices.input + read * prices.cacheRead + written * prices.cacheWrite;
  return { cost: (prompt + amount(usage.output) * prices.output) / MILLION, isEstimated: true };
}

const MILLION = 1_000_000;

/** Cost that an agent recorded for a whole session. */
export interface RecordedCost {
  /** US dollars, including the cost of the sub-agents that the session started. */
  cost: number;
  /** Row of the record, which covers the calls before it in the file. */
  row: number;
}

/** Type of the entries in which an import keeps the total cost that Claude Code recorded. */
const COST_STATE = "claude-code.cost-state";

/**
 * Returns the total cost that Claude Code recorded in an imported session, over all runs of the program; undefined when
 * there is none.
 */
export function recordedCost(tree: Tree): RecordedCost | undefined {
  if (tree.header?.importedFrom?.agent !== "claude-code") return undefined;
  let found: RecordedCost | undefined;
  // When a program begins again at zero, its total is added to the earlier one.
  let earlier = 0;
  for (let row = 0; row < tree.length; row++) {
    if (tree.kindAt(row).type !== custom.type) continue;
    const entry = tree.entryAt(row);
    if (!custom.is(entry) || entry.customType !== COST_STATE || !isRecord(entry.data)) continue;
    const total = amount(entry.data["totalCostUSD"]);
    if (total === 0) continue;
    if (found && earlier + total < found.cost) earlier = found.cost;
    found = { cost: earlier + total, row };
  }
  return found;
}

/**
 * Returns the rows of the entries that a fork copied from its origin, whose calls the origin bills. Empty for other
 * sessions, and for a fork that records no entry where it begins.
 */
export function copiedRows(tree: Tree): ReadonlySet<number> {
  const { kind, entryId } = tree.header?.parent ?? {};
  if (kind !== "fork" || typeof entryId !== "string" || !tree.has(entryId)) return new Set();
  return new Set(pathRows(tree, tree.row(entryId)));
}

/** Sums up calls. */
export function totalOf(calls: Iterable<BilledCall>, prices?: OwnPrices): UsageTotals {
  const total = nothingBilled();
  for (const call of calls) addBill(total, call.usage, call, prices);
  return total;
}

/** Sums up the calls that the entries of some rows bill. */
export const billOfRows = (tree: Tree, rows: Iterable<number>, prices?: OwnPrices): UsageTotals =>
  totalOf(
    [...rows].flatMap((row) => billedCallAt(tree, row) ?? []),
    prices,
  );

/** Returns the price of a call in US dollars from its bill; 0 when the bill records none. */
export const costOf = (usage: Usage | undefined): number => amount(usage?.cost?.total);

/** Returns the call that the entry of a row bills; undefined when it bills none. */
export function billedCallAt(tree: Tree, row: number): BilledCall | undefined {
  const { type } = tree.kindAt(row);
  if (!MAY_BILL.has(type)) return undefined;
  // Prompts and results are no calls; their lines, the longest ones, are not parsed.
  if (type === message.type && UNBILLED.has(roleAt(tree, row) ?? "")) return undefined;
  const entry = tree.entryAt(row);
  // A damaged log may have an entry twice: it is counted as one call.
  if (tree.index.rowOf(entry.id) !== row) return undefined;
  const usage = usageOf(entry);
  return usage && { ...workOf(entry), usage };
}

/** Returns the usage that an entry bills; undefined when it bills none. */
export function usageOf(entry: Entry): Usage | undefined {
  const { usage } = billIn(entry);
  return isRecord(usage) && (usageTokens(usage) > 0 || costOf(usage) > 0) ? usage : undefined;
}

const billIn = (entry: Entry): Billed => (isMessage(entry, "assistant") ? entry.message : (entry as Billed));

/** An answer for which a provider counted tokens. */
export interface CountedCall {
  row: number;
  entryId: string;
  billed: BilledCall;
  /** Tokens of its prompt. */
  context: number;
  /** Tokens of its prompt at full price. */
  fresh: number;
  /** Tokens of its prompt that were read from the cache. */
  read: number;
  /** Tokens of its prompt that were written to the cache. */
  written: number;
  /** Minimum and maximum number of tokens of the answer in the next request. */
  answer: readonly [least: number, most: number];
  /** Time of the request in epoch milliseconds: that of the last entry written before the answer. */
  sentAt: number;
  /** Time at which the request began, as the answer records it, in epoch milliseconds; infinite when it records none. */
  startedAt: number;
  /** Time at which the answer was written, in epoch milliseconds. */
  writtenAt: number;
}

/** Returns the newest answer in the file for which a provider counted tokens; undefined when there is none. */
export function lastCall(tree: Tree): CountedCall | undefined {
  for (let row = tree.length - 1; row >= 0; row--) {
    const call = callAt(tree, row);
    if (call) return call;
  }
  return undefined;
}

/** Returns the answer at a row; undefined unless a provider counted its tokens. */
export function callAt(tree: Tree, row: number): CountedCall | undefined {
  const billed = billedCallAt(tree, row);
  if (billed?.kind !== "answer") return undefined;
  const { usage } = billed;
  const [fresh, read, written] = [amount(usage.input), amount(usage.cacheRead), amount(usage.cacheWrite)];
  const context = fresh + read + written;
  if (context + amount(usage.output) === 0) return undefined;
  const entry = tree.entryAt(row);
  const { id: entryId, timestamp } = entry;
  const writtenAt = Date.parse(timestamp);
  const sentAt = row > 0 ? Date.parse(tree.entryAt(row - 1).timestamp) : writtenAt;
  const startedAt = isMessage(entry, "assistant") ? entry.message.timestamp : undefined;
  return {
    row,
    entryId,
    billed,
    context,
    fresh,
    read,
    written,
    answer: answerSize(entry, amount(usage.output)),
    sentAt,
    startedAt: typeof startedAt === "number" ? startedAt : Number.POSITIVE_INFINITY,
    writtenAt,
  };
}

/**
 * Returns the minimum and maximum number of tokens of a message: a token is two to eight characters of English; in other
 * languages it is one to eight.
 */
export function textSize(message: ContextMessage): CountedCall["answer"] {
  const tokens = estimateTokens(message);
  const isPlain = !NOT_ASCII.test(jsonText(message));
  return [tokens / 2, tokens * (isPlain ? 2 : 4)];
}

const NOT_ASCII = /[^\x00-\x7f]/;

/**
 * Returns the size of an answer: the provider's count, or the range of its text if the count is too small, because some
 * programs record the first count of a stream. For a failed answer: from 0 to the count.
 */
function answerSize(entry: Entry, output: number): CountedCall["answer"] {
  if (!isMessage(entry, "assistant") || isFailedAnswer(entry.message)) return [0, output];
  return output >= estimateTokens(entry.message) / 2 ? [output, output] : textSize(entry.message);
}

/** Fields of a bill; entries of any kind may have them. */
interface Billed {
  usage?: Usage;
  kind?: unknown;
  provider?: unknown;
  model?: unknown;
  details?: unknown;
}

const UNBILLED: ReadonlySet<string> = new Set(["user", "toolResult"]);
const MAY_BILL: ReadonlySet<string> = new Set(["message", "compaction", "branch_summary", "usage"]);

/** Returns kind and model of a bill. Answers and bills name the model themselves; summaries name it in their details. */
function workOf(entry: Entry): Omit<BilledCall, "usage"> {
  const bill = billIn(entry);
  if (entry.type === "message" || entry.type === "usage") {
    const kind = entry.type === "message" ? "answer" : text(bill.kind);
    return { kind, provider: text(bill.provider), model: text(bill.model) };
  }
  const { model, source, settings } = (bill.details ?? {}) as Partial<CompactionDetails>;
  // Imported compactions name no model: the session's model wrote them.
  return {
    kind: entry.type,
    provider: text(model?.provider ?? source ?? settings?.provider),
    model: text(model?.modelId ?? source ?? settings?.modelId),
  };
}

/** Returns a count or a price between zero and 2^53 - 1, so that sums stay finite; 0 for any other value. */
export const amount = (value: unknown): number =>
  typeof value === "number" && value > 0 && value <= Number.MAX_SAFE_INTEGER ? value : 0;
const text = (value: unknown): string => (typeof value === "string" && value !== "" ? value : "unknown");
