import { addBill, billedCallAt, CACHE_CAUSES, CacheReader, nothingBilled } from "@espalier/engine/reading";
import type { Tree } from "@espalier/session-tree";
import { Breath } from "./context.ts";

/** Sums after an entry that a provider billed. */
export interface SpendingPoint {
  row: number;
  timestamp: string;
  /** US dollars up to here. */
  cost: number;
  /** Tokens up to here: read anew, read from the cache, written. */
  input: number;
  cached: number;
  output: number;
}

/** Cost of a session over time, all branches, in file order. */
export interface Spending {
  /** At most about 800 points; the last one has the sums. */
  points: SpendingPoint[];
  /** Rows and dollars of the entries that cost anything: [row, dollars]. */
  costs: [number, number][];
  /** Breaks of the prompt cache, in file order. */
  breaks: CacheBreakPoint[];
}

/** A call whose provider lacked what its prompt cache had held. */
export interface CacheBreakPoint {
  /** Row of the call. */
  row: number;
  /** Row of the entry that broke the prefix. */
  brokenBy: number;
  /** Tokens that were paid for anew. */
  tokens: number;
  /** US dollars that this cost. */
  cost: number;
  /** In words for people. */
  cause: string;
}

const POINTS = 800;

/** Sums of each tree so far: a session that grows is continued. */
const ledgers = new WeakMap<Tree, Promise<Ledger>>();

interface Ledger {
  /** Rows that were looked at. */
  length: number;
  points: SpendingPoint[];
  costs: [number, number][];
  sums: ReturnType<typeof nothingBilled>;
  cache: CacheReader;
}

export async function spendingOf(tree: Tree): Promise<Spending> {
  const before = ledgers.get(tree);
  const summing = summed(tree, before);
  ledgers.set(tree, summing);
  const { points, costs, cache } = await summing;
  const stride = Math.ceil(points.length / POINTS);
  return {
    points: points.filter((_, at) => at % stride === 0 || at === points.length - 1),
    costs: [...costs],
    breaks: cache.ledger.breaks.map(({ call, entryId, tokens, cost, cause }) => ({
      row: tree.row(call),
      brokenBy: tree.row(entryId),
      tokens,
      cost,
      cause: CACHE_CAUSES[cause],
    })),
  };
}

async function summed(tree: Tree, before: Promise<Ledger> | undefined): Promise<Ledger> {
  // The caller of a sum that failed received its error; this one begins anew.
  const ledger = (await before?.catch(() => undefined)) ?? {
    length: 0,
    points: [],
    costs: [],
    sums: nothingBilled(),
    cache: new CacheReader(tree),
  };
  const breath = new Breath();
  for (; ledger.length < tree.length; ledger.length++) {
    addRow(tree, ledger, ledger.length);
    ledger.cache.step();
    await breath.take();
  }
  return ledger;
}

function addRow(tree: Tree, { points, costs, sums }: Ledger, row: number): void {
  const call = billedCallAt(tree, row);
  if (!call) return;
  const before = sums.cost;
  addBill(sums, call.usage, call);
  if (sums.cost > before) costs.push([row, sums.cost - before]);
  const { cost, input, cacheWrite, cacheRead: cached, output } = sums;
  points.push({
    row,
    timestamp: tree.entryAt(row).timestamp,
    cost,
    input: input + cacheWrite,
    cached,
    output,
  });
}
