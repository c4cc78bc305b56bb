import { type Entry, isMessage, type Tree, type Usage } from "@espalier/session-tree";
import { usageTokens } from "@espalier/summarizer";

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
  /** US dollars; calls without a price add nothing. */
  cost: number;
}

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
});

/** Adds one bill to a sum, in place. */
export function addBill(sum: UsageTotals, usage: Usage): void {
  sum.calls++;
  sum.input += amount(usage.input);
  sum.output += amount(usage.output);
  sum.cacheRead += amount(usage.cacheRead);
  sum.cacheWrite += amount(usage.cacheWrite);
  sum.totalTokens += usageTokens(usage);
  sum.cost += costOf(usage);
}

/** Price of a call in US dollars; 0 where there is none. */
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
  const { model, source } = (bill.details ?? {}) as {
    model?: { provider?: unknown; modelId?: unknown } | null;
    source?: unknown;
  };
  return { provider: text(model?.provider ?? source), model: text(model?.modelId ?? source) };
}

const isUsage = (value: unknown): value is Usage => typeof value === "object" && value !== null;

/** A count or a price: from zero to 2^53 - 1, so that sums stay numbers. Anything else counts nothing. */
const amount = (value: unknown): number =>
  typeof value === "number" && value > 0 && value <= Number.MAX_SAFE_INTEGER ? value : 0;
const text = (value: unknown): string => (typeof value === "string" && value !== "" ? value : "unknown");
