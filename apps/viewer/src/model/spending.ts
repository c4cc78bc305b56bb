import {
  addBill,
  type BilledCall,
  billedCallAt,
  CACHE_CAUSES,
  CacheReader,
  nothingBilled,
  type SessionStats,
  statsOfCalls,
} from "@espalier/engine/reading";
import type { Tree } from "@espalier/session-tree";
import { continued } from "./long-work.ts";

/** Totals after a billed entry. */
export interface SpendingPoint {
  row: number;
  timestamp: string;
  /** US dollars so far. */
  cost: number;
  /** Tokens so far: uncached input, cached input, output. */
  input: number;
  cached: number;
  output: number;
}

/** Cost of a session over time, all branches, in file order. */
export interface Spending {
  /** At most about 800 points; the last one has the totals. */
  points: SpendingPoint[];
  /** Entries with a cost: [row, dollars]. */
  costs: [number, number][];
}

/** A call for which the provider's prompt cache missed earlier content. */
export interface CacheBreakPoint {
  /** Row of the call. */
  row: number;
  /** Row of the entry that changed the prefix. */
  brokenBy: number;
  /** Tokens that were paid again. */
  tokens: number;
  /** Cost in US dollars. */
  cost: number;
  /** Cause in words, for people. */
  cause: string;
}

const POINTS = 800;

/** Billed calls of the first rows of a tree, and their totals. */
const noBills = () => ({
  length: 0,
  calls: new Map<number, BilledCall>(),
  points: [] as SpendingPoint[],
  costs: [] as [number, number][],
  sums: nothingBilled(),
});

const bills = new WeakMap<Tree, Promise<ReturnType<typeof noBills>>>();
const caches = new WeakMap<Tree, Promise<CacheReader>>();

const billsOf = (tree: Tree) =>
  continued("bills", bills, tree, async (kept = noBills(), breathe) => {
    for (; kept.length < tree.length; kept.length++) {
      addCall(tree, kept.length, kept);
      await breathe();
    }
    return kept;
  });

function addCall(tree: Tree, row: number, { calls, points, costs, sums }: ReturnType<typeof noBills>): void {
  const call = billedCallAt(tree, row);
  if (!call) return;
  calls.set(row, call);
  const before = sums.cost;
  addBill(sums, call.usage, call);
  if (sums.cost > before) costs.push([row, sums.cost - before]);
  const { cost, input, cacheWrite, cacheRead: cached, output } = sums;
  const { timestamp } = tree.entryAt(row);
  points.push({ row, timestamp, cost, input: input + cacheWrite, cached, output });
}

export async function spendingOf(tree: Tree): Promise<Spending> {
  const { points, costs } = await billsOf(tree);
  const stride = Math.ceil(points.length / POINTS);
  return {
    points: points.filter((_, at) => at % stride === 0 || at === points.length - 1),
    costs: [...costs],
  };
}

/**
 * Returns the costs of a session by path, model and kind. Bills that {@link spendingOf} has read are not read again.
 */
export async function statsAt(tree: Tree): Promise<SessionStats> {
  return statsOfCalls(tree, (await billsOf(tree)).calls);
}

/** Breaks of the prompt cache, in file order. */
export async function cacheBreaksOf(tree: Tree): Promise<CacheBreakPoint[]> {
  const reader = await continued("breaks", caches, tree, async (kept = new CacheReader(tree), breathe) => {
    while (kept.step()) await breathe();
    return kept;
  });
  return reader.ledger.breaks.map(({ call, entryId, tokens, cost, cause }) => ({
    row: tree.row(call),
    brokenBy: tree.row(entryId),
    tokens,
    cost,
    cause: CACHE_CAUSES[cause],
  }));
}
