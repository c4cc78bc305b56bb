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
import { Breath } from "./context.ts";

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

/** State of the work on a tree, which is continued when the session grows. */
interface Ledger {
  /** Number of rows that were read. */
  length: number;
  step(row: number): void;
}

/**
 * Continues the ledger of a tree up to the tree's end. Calls for one tree run one after the other; other work runs in
 * between.
 */
function continued<Kept extends Ledger>(
  work: "bills" | "breaks",
  ledgers: WeakMap<Tree, Promise<Kept>>,
  tree: Tree,
  begin: () => Kept,
): Promise<Kept> {
  const before = ledgers.get(tree);
  const walk = async () => {
    // The caller of a failed call received its error; this call starts again.
    const ledger = (await before?.catch(() => undefined)) ?? begin();
    await Breath.during(work, async (breath) => {
      for (; ledger.length < tree.length; ledger.length++) {
        ledger.step(ledger.length);
        await breath.take();
      }
    });
    return ledger;
  };
  const walking = walk();
  ledgers.set(tree, walking);
  return walking;
}

const bills = new WeakMap<Tree, Promise<Bills>>();
const caches = new WeakMap<Tree, Promise<Ledger & { reader: CacheReader }>>();

/** Billed calls, and their totals. */
class Bills implements Ledger {
  length = 0;
  readonly calls = new Map<number, BilledCall>();
  readonly points: SpendingPoint[] = [];
  readonly costs: [number, number][] = [];
  readonly #tree: Tree;
  readonly #sums = nothingBilled();

  constructor(tree: Tree) {
    this.#tree = tree;
  }

  step(row: number): void {
    const call = billedCallAt(this.#tree, row);
    if (!call) return;
    this.calls.set(row, call);
    const sums = this.#sums;
    const before = sums.cost;
    addBill(sums, call.usage, call);
    if (sums.cost > before) this.costs.push([row, sums.cost - before]);
    const { cost, input, cacheWrite, cacheRead: cached, output } = sums;
    const { timestamp } = this.#tree.entryAt(row);
    this.points.push({ row, timestamp, cost, input: input + cacheWrite, cached, output });
  }
}

const billsOf = (tree: Tree): Promise<Bills> => continued("bills", bills, tree, () => new Bills(tree));

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
  const { reader } = await continued("breaks", caches, tree, () => {
    const begun = new CacheReader(tree);
    return { reader: begun, length: 0, step: () => begun.step() };
  });
  return reader.ledger.breaks.map(({ call, entryId, tokens, cost, cause }) => ({
    row: tree.row(call),
    brokenBy: tree.row(entryId),
    tokens,
    cost,
    cause: CACHE_CAUSES[cause],
  }));
}
