import type { Tree } from "@espalier/session-tree";
import { usageOf } from "./entry-gist.ts";

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
  /** Billed calls. */
  calls: number;
  /** At most about 800 points; the last one has the sums. */
  points: SpendingPoint[];
  /** Rows and dollars of the entries that cost anything: [row, dollars]. */
  costs: [number, number][];
}

const POINTS = 800;

export function spendingOf(tree: Tree): Spending {
  const all: SpendingPoint[] = [];
  const costs: [number, number][] = [];
  let sums = { cost: 0, input: 0, cached: 0, output: 0 };
  for (let row = 0; row < tree.length; row++) {
    const usage = isBillable(tree.kindAt(row).type) ? usageOf(tree.entryAt(row)) : undefined;
    if (!usage) continue;
    const cost = amount(usage.cost?.total);
    sums = {
      cost: sums.cost + cost,
      input: sums.input + amount(usage.input) + amount(usage.cacheWrite),
      cached: sums.cached + amount(usage.cacheRead),
      output: sums.output + amount(usage.output),
    };
    if (cost > 0) costs.push([row, cost]);
    all.push({ row, timestamp: tree.entryAt(row).timestamp, ...sums });
  }
  const stride = Math.ceil(all.length / POINTS);
  return {
    calls: all.length,
    points: all.filter((_, at) => at % stride === 0 || at === all.length - 1),
    costs,
  };
}

const BILLABLE: ReadonlySet<string> = new Set(["message", "compaction", "branch_summary", "usage"]);
const isBillable = (type: string): boolean => BILLABLE.has(type);

const amount = (value: unknown): number =>
  typeof value === "number" && Number.isFinite(value) && value > 0 ? value : 0;
