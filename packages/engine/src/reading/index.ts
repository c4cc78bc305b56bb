export {
  type ArchivedRows,
  archivedRows,
  type HistoryHit,
  isArchived,
  type ReadableSession,
  rowsHidden,
} from "@espalier/compaction/policies";
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
  type CacheLedger,
  CacheReader,
  cacheLedger,
} from "./cache-ledger.ts";
export { type BranchComparison, type BranchSide, compareBranches } from "./compare-branches.ts";
export { formatAge, formatBytes, formatCost } from "./figures.ts";
export { CACHE_CAUSES, CACHE_LIFE_MS, type CacheCause } from "./requests.ts";
export { SessionCache } from "./session-cache.ts";
export {
  type CompactionStats,
  historyOf,
  type SessionStats,
  statsOf,
  statsOfCalls,
  totalWithRecorded,
} from "./statistics.ts";
