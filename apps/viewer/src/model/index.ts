export { type CompactionView, compactionAt, originsOf, type SummaryOrigin } from "./compaction.ts";
export {
  type ContextGrowth,
  type ContextPiece,
  type ContextView,
  contextViewAt,
  type GrowthPoint,
  growthTo,
  TOKEN_KINDS,
  type TokenCounts,
  type TokenKind,
} from "./context.ts";
export {
  billOf,
  type EntryGist,
  gistAt,
  gistOfCall,
  gistOfFields,
  oneLine,
  saidIn,
  withoutHeadings,
} from "./entry-gist.ts";
export {
  type BranchEnd,
  branchEnds,
  type CompactionMark,
  type EditMark,
  type FoundText,
  type FoundTexts,
  factsOf,
  findText,
  type SessionFacts,
} from "./facts.ts";
export { BOOKKEEPING, type Outline, OutlineRows, outlineOf, ROW_KINDS, type RowKind } from "./outline.ts";
export {
  type CacheBreakPoint,
  cacheBreaksOf,
  type Spending,
  type SpendingPoint,
  spendingOf,
} from "./spending.ts";
export { type SessionReader, type TreeReader, treeReader } from "./tree-reader.ts";
