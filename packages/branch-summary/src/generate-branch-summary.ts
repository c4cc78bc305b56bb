import type { Entry, Usage } from "@espalier/session-tree";
import {
  addUsage,
  fileLists,
  formatFileLists,
  type RequestSummaryOptions,
  requestSummary,
  type SummaryAnswer,
  type SummaryOmission,
} from "@espalier/summarizer";
import { BRANCH_SECTIONS, BRANCH_SUMMARY_PROMPT } from "./branch-summary-prompt.ts";
import { prepareBranchEntries } from "./prepare-entries.ts";

export interface GenerateBranchSummaryOptions
  extends Pick<
    RequestSummaryOptions,
    "summarizer" | "customInstructions" | "signal" | "onProgress" | "onRequest" | "concurrency"
  > {
  /** `merge` for a conclusion that is brought to another branch. Default `branch`. */
  purpose?: "branch" | "merge";
  /** Stands in place of {@link BRANCH_SUMMARY_PROMPT}; no headings are asked for then. */
  replaceInstructions?: string;
  /** The window of the model that reads the summary. Default 200,000. */
  contextWindow?: number;
  /** Kept free for answers. Default 16,384. */
  reserveTokens?: number;
}

export interface BranchSummaryResult {
  /** The whole text for the entry: the prose and the file lists. */
  summary: string;
  readFiles: string[];
  modifiedFiles: string[];
  /** All that was billed, failed attempts included. */
  usage?: Usage;
  source: string;
  model: SummaryAnswer["model"];
  omitted?: SummaryOmission;
}

/** The share of the reserve that a branch summary may take. */
const SUMMARY_SHARE = 0.5;

/**
 * Summarises the entries of a branch. Writes nothing; the answer is valid, or this throws a `SummarizerError`.
 */
export async function generateBranchSummary(
  entries: readonly Entry[],
  options: GenerateBranchSummaryOptions,
): Promise<BranchSummaryResult> {
  const {
    purpose = "branch",
    replaceInstructions,
    contextWindow = 200_000,
    reserveTokens = 16_384,
    ...ask
  } = options;
  const prepared = prepareBranchEntries(entries, contextWindow - reserveTokens);
  const answer = await requestSummary(prepared.messages, {
    ...ask,
    purpose,
    instructions: replaceInstructions ?? BRANCH_SUMMARY_PROMPT,
    sections: replaceInstructions === undefined ? BRANCH_SECTIONS : [],
    maxOutputTokens: Math.floor(reserveTokens * SUMMARY_SHARE),
  });
  const lists = fileLists(prepared.fileOps);
  const files = formatFileLists(lists, Math.floor(contextWindow / 8));
  const usage = (answer.attempts ?? []).reduce((sum, attempt) => addUsage(sum, attempt.usage), answer.usage);
  return {
    summary: [answer.text, files].filter((part) => part !== "").join("\n\n"),
    ...lists,
    ...(usage ? { usage } : {}),
    source: answer.source ?? ask.summarizer.name,
    model: answer.model,
    ...(answer.omitted ? { omitted: answer.omitted } : {}),
  };
}
