export type { GenerateBranchSummaryOptions } from "./branch-summary.ts";
export {
  type BranchEntries,
  type BranchSummaryPlan,
  type BranchSummaryResult,
  collectEntriesForBranchSummary,
  generateBranchSummary,
  hasSomethingToTell,
  type PreparedBranch,
  planBranchSummary,
  prepareBranchEntries,
} from "./branch-summary.ts";
export {
  type BeforeForkAnswer,
  type BeforeForkEvent,
  type BranchSummaryProposal,
  type ForkEvent,
  type NavigateEvent,
  sessionBeforeFork,
  sessionBeforeTree,
  sessionFork,
  sessionNavigate,
  sessionTree,
} from "./fork-hooks.ts";
export { BRANCH_SECTIONS, BRANCH_SUMMARY_PROMPT } from "./prompt.ts";
