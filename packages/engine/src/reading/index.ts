export {
  type ArchivedRows,
  archivedRows,
  type HistoryHit,
  type HistoryQuery,
  isArchived,
  type ReadableSession,
  rowsHidden,
} from "@espalier/compaction/policies";
export { addBill, type BilledCall, billedCallAt, nothingBilled, type UsageTotals } from "./bills.ts";
export {
  CACHE_CAUSES,
  CACHE_LIFE_MS,
  CACHE_SLACK,
  type CacheBreak,
  type CacheCall,
  type CacheLedger,
  type CacheLedgerOptions,
  CacheReader,
  cacheLedger,
} from "./cache-ledger.ts";
export { type BranchComparison, type BranchSide, compareBranches } from "./compare-branches.ts";
export type { CacheCause } from "./requests.ts";
export {
  type CompactionStats,
  type HistoryRequest,
  historyOf,
  type SessionStats,
  statsOf,
} from "./statistics.ts";
