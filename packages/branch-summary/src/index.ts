export { BRANCH_SECTIONS, BRANCH_SUMMARY_PROMPT } from "./branch-summary-prompt.ts";
export { type BranchEntries, collectEntriesForBranchSummary } from "./collect-entries.ts";
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
export {
  type BranchSummaryResult,
  type GenerateBranchSummaryOptions,
  generateBranchSummary,
} from "./generate-branch-summary.ts";
export { type BranchSummaryPlan, hasSomethingToTell, planBranchSummary } from "./plan-branch-summary.ts";
export { type PreparedBranch, prepareBranchEntries } from "./prepare-entries.ts";
