import {
  type HistoryHit,
  type HistoryQuery,
  queryHistory,
  type ReadableSession,
} from "@espalier/compaction/policies";
import {
  type CompactionEntry,
  compaction,
  leafOf,
  pathMarks,
  type Tree,
  tipRows,
} from "@espalier/session-tree";
import {
  addBill,
  type BilledCall,
  billedCallAt,
  nothingBilled,
  type OwnPrices,
  priceOf,
  type RecordedCost,
  recordedCost,
  totalOf,
  type UsageTotals,
} from "./bills.ts";

/** Costs and compactions of a session. */
export interface SessionStats {
  /**
   * All calls of models on all branches; each counts once. If the agent recorded the cost of the session, `cost` is
   * that record plus the cost of later calls.
   */
  total: UsageTotals;
  /** Cost that the agent itself recorded, in US dollars, including sub-agents; null when the file has none. */
  recordedCost: number | null;
  /** Calls on the path of the leaf: the cost of the current conversation. */
  path: UsageTotals;
  /**
   * For each end of the tree, the calls on its path, in the order in which the ends were written. Calls that branches
   * share count for each of them.
   */
  branches: ({ leafId: string } & UsageTotals)[];
  /** Sums by model, most expensive first. */
  models: ({ provider: string; model: string } & UsageTotals)[];
  /** Sums by purpose: `answer`, `compaction`, `branch_summary`, …; most expensive first. */
  kinds: ({ kind: string } & UsageTotals)[];
  /** Compactions on all branches, in the order of the log. */
  compactions: CompactionStats[];
}

/** Figures of one compaction; null when the entry lacks them: other programs record less. */
export interface CompactionStats {
  entryId: string;
  /** Time, ISO 8601. */
  timestamp: string;
  tokensBefore: number;
  tokensAfter: number | null;
  /** Number of messages that its summary replaces. */
  removed: number | null;
  durationMs: number | null;
  policy: string | null;
  /** Author of the summary. */
  source: string | null;
  /** US dollars; 0 without a call of a model; null when the price is unknown. */
  cost: number | null;
  /** True when `cost` was computed from tokens. */
  estimated: boolean;
  /** True when the compaction is on the path of the leaf. */
  onPath: boolean;
}

/**
 * Sums up the cost of a session, in total, along each path, by model and by kind, and lists its compactions. Pure.
 *
 * @param source a session; or its tree, which is read at its own leaf
 * @param leafId end of `path`; default: the leaf of the source
 * @param prices prices of calls whose bill records none; they override those of the catalogue
 * @throws EspalierError `unknown-entry` for a leaf that is not in the session
 */
export function statsOf(
  source: Tree | ReadableSession,
  leafId: string | null = readableOf(source).leafId,
  prices?: OwnPrices,
): SessionStats {
  const { tree } = readableOf(source);
  const calls = new Map<number, BilledCall>();
  for (let row = 0; row < tree.length; row++) {
    const call = billedCallAt(tree, row);
    if (call) calls.set(row, call);
  }
  return statsOfCalls(tree, calls, leafId, prices);
}

/** Sums up as {@link statsOf}, from calls by row: for programs that keep the calls while a session grows. */
export function statsOfCalls(
  tree: Tree,
  calls: ReadonlyMap<number, BilledCall>,
  leafId: string | null = leafOf(tree),
  prices?: OwnPrices,
): SessionStats {
  const compactions: CompactionStats[] = [];
  const onPath = pathMarks(tree, leafId === null ? -1 : tree.row(leafId));
  for (let row = 0; row < tree.length; row++) {
    if (tree.kindAt(row).type !== compaction.type) continue;
    const entry = tree.entryAt(row);
    if (compaction.is(entry))
      compactions.push(compactionStats(entry, calls.get(row), onPath[row] === 1, prices));
  }
  const recorded = recordedCost(tree);
  return {
    total: totalWithRecorded(calls, recorded, prices),
    recordedCost: recorded?.cost ?? null,
    path: totalOf(
      [...calls].flatMap(([row, call]) => (onPath[row] === 1 ? [call] : [])),
      prices,
    ),
    branches: branchTotals(tree, calls, prices),
    models: grouped(calls.values(), ({ provider, model }) => ({ provider, model }), prices),
    kinds: grouped(calls.values(), ({ kind }) => ({ kind }), prices),
    compactions,
  };
}

/** Returns the sums of calls, by row. The cost of calls before the agent's own record is the recorded one. */
export function totalWithRecorded(
  calls: ReadonlyMap<number, BilledCall>,
  recorded: RecordedCost | undefined,
  prices?: OwnPrices,
): UsageTotals {
  const total = totalOf(calls.values(), prices);
  if (!recorded) return total;
  const later = [...calls].flatMap(([row, call]) => (row > recorded.row ? [call] : []));
  const { cost, estimated, unpriced } = totalOf(later, prices);
  return { ...total, cost: recorded.cost + cost, estimated, unpriced };
}

function compactionStats(
  entry: CompactionEntry,
  call: BilledCall | undefined,
  onPath: boolean,
  prices: OwnPrices,
): CompactionStats {
  const price = call ? priceOf(call, prices) : NOT_BILLED;
  const details = (entry.details ?? {}) as Record<string, unknown>;
  const covered = details["covered"] as { messages?: unknown } | null | undefined;
  return {
    entryId: entry.id,
    timestamp: entry.timestamp,
    tokensBefore: numberIn(entry.tokensBefore) ?? 0,
    tokensAfter: numberIn(details["tokensAfter"]),
    removed: numberIn(covered?.messages),
    durationMs: numberIn(details["durationMs"]),
    policy: textIn(details["policy"]),
    source: textIn(details["source"]) ?? (entry.fromHook ? "extension" : null),
    cost: price?.cost ?? null,
    estimated: price?.isEstimated ?? false,
    onPath,
  };
}

/** Price of a compaction without a call of a model. */
const NOT_BILLED = { cost: 0, isEstimated: false };

/** Returns sums for every end of the tree. Each continues from the sum above it, so that every entry is visited once. */
function branchTotals(
  tree: Tree,
  calls: ReadonlyMap<number, BilledCall>,
  prices: OwnPrices,
): SessionStats["branches"] {
  const nothing = nothingBilled();
  const sums: UsageTotals[] = [];
  for (let row = 0; row < tree.length; row++) {
    const above = sums[tree.index.parent(row)] ?? nothing;
    const call = calls.get(row);
    const sum = call ? { ...above } : above;
    if (call) addBill(sum, call.usage, call, prices);
    sums.push(sum);
  }
  return tipRows(tree).map((row) => ({ leafId: tree.idAt(row), ...sums[row]! }));
}

function grouped<Key extends object>(
  calls: Iterable<BilledCall>,
  keyOf: (call: BilledCall) => Key,
  prices: OwnPrices,
): (Key & UsageTotals)[] {
  const groups = new Map<string, Key & UsageTotals>();
  for (const call of calls) {
    const key = keyOf(call);
    const name = Object.values(key).join("\n");
    const group = groups.get(name) ?? { ...key, ...nothingBilled() };
    addBill(group, call.usage, call, prices);
    groups.set(name, group);
  }
  return [...groups.values()].sort((a, b) => b.cost - a.cost || b.totalTokens - a.totalTokens);
}

const numberIn = (value: unknown): number | null => (typeof value === "number" ? value : null);
const textIn = (value: unknown): string | null => (typeof value === "string" ? value : null);

/** Query for original entries: words, or words and a range. */
export type HistoryRequest = string | HistoryQuery;

/**
 * Finds original entries of a session that have all the words: on its path, on other branches, and in the parts that
 * compactions replaced; oldest first. A tree alone is read at its own leaf. Without `limit`, all matching entries are
 * returned.
 *
 * @throws EspalierError `unknown-entry` for an end of the range that is not in the session
 */
export function historyOf(source: Tree | ReadableSession, request: HistoryRequest): HistoryHit[] {
  const query = typeof request === "string" ? { query: request } : request;
  return queryHistory(readableOf(source), { limit: Number.POSITIVE_INFINITY, ...query });
}

/** Returns a session unchanged, or a tree at its own leaf. */
const readableOf = (source: Tree | ReadableSession): ReadableSession =>
  "tree" in source ? source : { tree: source, leafId: leafOf(source) };
