export {
  type ArchivedRows,
  archivedRows,
  type HistoryHit,
  type HistoryQuery,
  isArchived,
  type ReadableSession,
  rowsHidden,
} from "@espalier/compaction/policies";
export { type BranchComparison, type BranchSide, compareBranches } from "./compare-branches.ts";
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
