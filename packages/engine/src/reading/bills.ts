import { custom, type Entry, isMessage, isRecord, type Tree, type Usage } from "@espalier/session-tree";
import { pricesOf, type TokenPrices, usageTokens } from "@espalier/summarizer";

/** Sum of bills: tokens, and US dollars. */
export interface UsageTotals {
  /** Calls that were billed. */
  calls: number;
  /** Tokens of prompts at the full price. */
  input: number;
  /** Tokens of answers, thinking included. */
  output: number;
  /** Tokens of prompts that a provider's cache had. */
  cacheRead: number;
  /** Tokens of prompts that were written to it. */
  cacheWrite: number;
  /** All of these, or the total of the provider where it gave one. */
  totalTokens: number;
  /** US dollars, estimates included; calls of unknown price add nothing. */
  cost: number;
  /** US dollars of `cost` that no bill records: tokens at the prices of the catalogue, or at own ones. */
  estimated: number;
  /** Calls of unknown price. */
  unpriced: number;
}

/** Own prices by `provider/model` or by model, before those of the catalogue. */
export type OwnPrices = Readonly<Record<string, TokenPrices>> | undefined;

/** One call to a model, by the entry with its bill. */
export interface BilledCall {
  /** `answer`; for summaries and failed work its kind: `compaction`, `branch_summary`, … */
  kind: string;
  provider: string;
  model: string;
  usage: Usage;
}

/** Returns sums with nothing in them: no call, no token, no cost. */
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
 * @param model the model that was called; without it a bill that records no cost is of unknown price
 */
export function addBill(
  sum: UsageTotals,
  usage: Usage,
  model?: Pick<BilledCall, "provider" | "model">,
  prices?: OwnPrices,
): void {
  sum.calls++;
  sum.input += amount(usage.input);
  sum.output += amount(usage.output);
  sum.cacheRead += amount(usage.cacheRead);
  sum.cacheWrite += amount(usage.cacheWrite);
  sum.totalTokens += usageTokens(usage);
  const recorded = costOf(usage);
  sum.cost += recorded;
  if (recorded > 0) return;
  const price = model && priceOf({ provider: model.provider, model: model.model, usage }, prices);
  if (!price) sum.unpriced++;
  else {
    sum.cost += price.cost;
    sum.estimated += price.cost;
  }
}

/** Price of a call in US dollars. */
export interface CallPrice {
  cost: number;
  /** True where the bill records no cost, and its tokens were priced. */
  isEstimated: boolean;
}

/** Price of a call: as its bill records it, else its tokens at known prices; undefined where neither is known. */
export function priceOf(
  { provider, model, usage }: Pick<BilledCall, "provider" | "model" | "usage">,
  own?: OwnPrices,
): CallPrice | undefined {
  const recorded = costOf(usage);
  if (recorded > 0) return { cost: recorded, isEstimated: false };
  const [input, read, written] = [usage.input, usage.cacheRead, usage.cacheWrite].map(amount) as [
    number,
    number,
    number,
  ];
  const named = { provider: text(provider), modelId: text(model) };
  const prices = pricesOf(named, input + read + written, own);
  if (!prices) return undefined;
  const prompt = input * prices.input + read * prices.cacheRead + written * prices.cacheWrite;
  return { cost: (prompt + amount(usage.output) * prices.output) / MILLION, isEstimated: true };
}

const MILLION = 1_000_000;

/** Cost that an agent recorded for a whole session. */
export interface RecordedCost {
  /** US dollars, with the cost of the sub-agents that the session started. */
  cost: number;
  /** Row of the record: it covers the calls before it in the file. */
  row: number;
}

/** Type of the entries in which Claude Code keeps its own sum, as an import names them. */
const COST_STATE = "claude-code.cost-state";

/** The newest sum that Claude Code recorded in an imported session; undefined where there is none. */
export function recordedCost(tree: Tree): RecordedCost | undefined {
  if (tree.header?.importedFrom?.agent !== "claude-code") return undefined;
  let found: RecordedCost | undefined;
  // The sum of a program that began at zero again is added to the one before.
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

/** Price of a call in US dollars as its bill records it; 0 where it records none. */
export const costOf = (usage: Usage | undefined): number => amount(usage?.cost?.total);

/** Returns the call that the entry of a row bills; undefined where it bills none. */
export function billedCallAt(tree: Tree, row: number): BilledCall | undefined {
  if (!MAY_BILL.has(tree.kindAt(row).type)) return undefined;
  const entry = tree.entryAt(row);
  // Where a damaged log has an entry twice, it is one call all the same.
  if (tree.index.rowOf(entry.id) !== row) return undefined;
  const bill = isMessage(entry, "assistant") ? entry.message : (entry as Billed);
  const { usage } = bill;
  if (!isUsage(usage) || (usageTokens(usage) === 0 && costOf(usage) === 0)) return undefined;
  return { kind: kindOfWork(entry), ...modelOf(entry, bill), usage };
}

/** Fields of a bill, in entries of any kind. */
interface Billed {
  usage?: Usage;
  kind?: unknown;
  provider?: unknown;
  model?: unknown;
  details?: unknown;
}

const MAY_BILL: ReadonlySet<string> = new Set(["message", "compaction", "branch_summary", "usage"]);

function kindOfWork(entry: Entry): string {
  if (entry.type === "message") return "answer";
  return entry.type === "usage" ? text((entry as Billed).kind) : entry.type;
}

/** Answers and bills name their model themselves; summaries record it in their details. */
function modelOf(entry: Entry, bill: Billed): Pick<BilledCall, "provider" | "model"> {
  if (entry.type === "message" || entry.type === "usage")
    return { provider: text(bill.provider), model: text(bill.model) };
  const { model, source, settings } = (bill.details ?? {}) as {
    model?: { provider?: unknown; modelId?: unknown } | null;
    source?: unknown;
    settings?: { provider?: unknown; modelId?: unknown } | null;
  };
  // Imported compactions name no writer: it was the session's model.
  return {
    provider: text(model?.provider ?? source ?? settings?.provider),
    model: text(model?.modelId ?? source ?? settings?.modelId),
  };
}

const isUsage = (value: unknown): value is Usage => typeof value === "object" && value !== null;

/** A count or a price: from zero to 2^53 - 1, so that sums stay numbers. Anything else counts nothing. */
const amount = (value: unknown): number =>
  typeof value === "number" && value > 0 && value <= Number.MAX_SAFE_INTEGER ? value : 0;
const text = (value: unknown): string => (typeof value === "string" && value !== "" ? value : "unknown");
