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
  addBill,
  type BilledCall,
  billedCallAt,
  copiedRows,
  nothingBilled,
  type OwnPrices,
  type RecordedCost,
  recordedCost,
  type UsageTotals,
} from "./bills.ts";
export {
  type CacheChange,
  type CacheForecast,
  cacheChange,
  forecastCache,
  forecastNavigation,
} from "./cache-forecast.ts";
export {
  CACHE_CAUSES,
  CACHE_LIFE_MS,
  CACHE_REASONS,
  CACHE_SLACK,
  type CacheBreak,
  type CacheCall,
  type CacheLedger,
  type CacheLedgerOptions,
  CacheReader,
  type CountedCall,
  cacheLedger,
  lastCall,
} from "./cache-ledger.ts";
export { type BranchComparison, type BranchSide, compareBranches } from "./compare-branches.ts";
export { type CacheCause, type Compared, type RequestDifference, RequestReader } from "./requests.ts";
export { SessionCache } from "./session-cache.ts";
export {
  type CompactionStats,
  type HistoryRequest,
  historyOf,
  type SessionStats,
  statsOf,
  statsOfCalls,
} from "./statistics.ts";
