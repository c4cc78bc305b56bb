export {
  type ArchivedRows,
  archivedRows,
  type HistoryHit,
  isArchived,
  type ReadableSession,
  rowsHidden,
} from "@espalier/compaction/policies";
export type { OwnPrices, RecordedCost } from "./bills.ts";
export {
  addBill,
  amount,
  type BilledCall,
  billedCallAt,
  billOfRows,
  copiedRows,
  costOf,
  nothingBilled,
  recordedCost,
  type UsageTotals,
  usageOf,
} from "./bills.ts";
export type { CacheChange } from "./cache-forecast.ts";
export {
  type CacheForecast,
  cacheChange,
  cacheSentence,
  forecastCache,
  forecastNavigation,
} from "./cache-forecast.ts";
export {
  CACHE_REASONS,
  type CacheBreak,
  type CacheCall,
  type CacheLedger,
  type CacheLedgerOptions,
  CacheReader,
  cacheLedger,
} from "./cache-ledger.ts";
export { type BranchComparison, type BranchSide, compareBranches } from "./compare-branches.ts";
export { formatAge, formatBytes, formatCost } from "./figures.ts";
export { CACHE_CAUSES, CACHE_LIFE_MS, type CacheCause, type RequestDifference } from "./requests.ts";
export { SessionCache } from "./session-cache.ts";
export {
  type CompactionStats,
  type HistoryRequest,
  historyOf,
  type SessionStats,
  statsOf,
  statsOfCalls,
  totalWithRecorded,
} from "./statistics.ts";
