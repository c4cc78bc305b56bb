export {
  type ArchivedRows,
  archivedRows,
  type HistoryHit,
  type HistoryQuery,
  isArchived,
  type ReadableSession,
  rowsHidden,
} from "@espalier/policies";
export { addBill, type BilledCall, billedCallAt, nothingBilled, type UsageTotals } from "./billed-calls.ts";
export { type BranchComparison, type BranchSide, compareBranches } from "./compare-branches.ts";
export { type HistoryRequest, historyOf } from "./history-of.ts";
export { type CompactionStats, type SessionStats, statsOf } from "./session-stats.ts";
