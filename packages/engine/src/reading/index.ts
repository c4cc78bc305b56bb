export {
  type ArchivedRows,
  archivedRows,
  type HistoryHit,
  type HistoryQuery,
  isArchived,
  type ReadableSession,
  rowsHidden,
} from "@espalier/compaction/policies";
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
  addBill,
  type BilledCall,
  billedCallAt,
  type CompactionStats,
  type HistoryRequest,
  historyOf,
  nothingBilled,
  type SessionStats,
  statsOf,
  type UsageTotals,
} from "./statistics.ts";
