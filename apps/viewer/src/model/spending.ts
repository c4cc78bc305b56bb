import { addBill, billedCallAt, nothingBilled } from "@espalier/engine/reading";
import type { Tree } from "@espalier/session-tree";

/** Where the sums stood after an entry that a provider billed. */
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

/** What a session cost over time, all branches, in file order. */
export interface Spending {
  /** At most about 800 points; the last one has the sums. */
  points: SpendingPoint[];
  /** Rows and dollars of the entries that cost anything: [row, dollars]. */
  costs: [number, number][];
}

const POINTS = 800;

export function spendingOf(tree: Tree): Spending {
  const all: SpendingPoint[] = [];
  const costs: [number, number][] = [];
  const sums = nothingBilled();
  for (let row = 0; row < tree.length; row++) {
    const call = billedCallAt(tree, row);
    if (!call) continue;
    const before = sums.cost;
    addBill(sums, call.usage);
    if (sums.cost > before) costs.push([row, sums.cost - before]);
    const { cost, input, cacheWrite, cacheRead: cached, output } = sums;
    all.push({
      row,
      timestamp: tree.entryAt(row).timestamp,
      cost,
      input: input + cacheWrite,
      cached,
      output,
    });
  }
  const stride = Math.ceil(all.length / POINTS);
  return { points: all.filter((_, at) => at % stride === 0 || at === all.length - 1), costs };
}
