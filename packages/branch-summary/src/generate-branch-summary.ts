import type { Entry, Usage } from "@espalier/session-tree";
import {
  addUsage,
  type FileTool,
  fileLists,
  formatFileLists,
  type RequestSummaryOptions,
  requestSummary,
  type SummaryAnswer,
  type SummaryOmission,
} from "@espalier/summarizer";
import { BRANCH_SECTIONS, BRANCH_SUMMARY_PROMPT } from "./branch-summary-prompt.ts";
import { prepareBranchEntries } from "./prepare-entries.ts";

/** Who summarises a branch, with which instructions, and into how much room; sizes are tokens. */
export interface GenerateBranchSummaryOptions
  extends Pick<
    RequestSummaryOptions,
    "summarizer" | "customInstructions" | "signal" | "onProgress" | "onRequest" | "concurrency"
  > {
  /** `merge` for a conclusion that is brought to another branch. Default `branch`. */
  purpose?: "branch" | "merge";
  /** Stands in place of {@link BRANCH_SUMMARY_PROMPT}; no headings are asked for then. */
  replaceInstructions?: string;
  /** What tools declare about files. Default: those of common agents. */
  tools?: readonly FileTool[];
  /** The window of the model that reads the summary. Default 200,000. */
  contextWindow?: number;
  /** Kept free for answers. Default 16,384. */
  reserveTokens?: number;
}

/** A summary that is good enough to be written, and what it took. */
export interface BranchSummaryResult {
  /** The whole text for the entry: the prose and the file lists. */
  summary: string;
  readFiles: string[];
  modifiedFiles: string[];
  /** All that was billed, failed attempts included. */
  usage?: Usage;
  source: string;
  model: SummaryAnswer["model"];
  /** Headings that were asked for and are not in the prose; absent where none is missing. */
  missingSections?: readonly string[];
  /** What the request had to shorten or drop of its messages. */
  omitted?: SummaryOmission;
  /** The entry of each of the request's messages. */
  sources: string[];
  /** Entries that did not fit and did not come into the request. */
  dropped: string[];
}

/** The share of the reserve that a branch summary may take; never more than a quarter of the window. */
const SUMMARY_SHARE = 0.5;

/** What a branch summary may take whatever the reserve, in tokens: what the extractive summarizer writes at the most. */
const SMALLEST_LIMIT = 2_000;

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
    tools,
    contextWindow = 200_000,
    reserveTokens = 16_384,
    ...ask
  } = options;
  const prepared = prepareBranchEntries(entries, budgetOf(contextWindow, reserveTokens), tools);
  const answer = await requestSummary(prepared.messages, {
    ...ask,
    purpose,
    instructions: replaceInstructions ?? BRANCH_SUMMARY_PROMPT,
    sections: replaceInstructions === undefined ? BRANCH_SECTIONS : [],
    maxOutputTokens: Math.min(
      Math.max(SMALLEST_LIMIT, Math.floor(reserveTokens * SUMMARY_SHARE)),
      Math.floor(contextWindow / 4),
    ),
  });
  const lists = fileLists(prepared.fileOps);
  const files = formatFileLists(lists, Math.floor(contextWindow / 8));
  const bills = [answer, ...(answer.attempts ?? [])];
  const usage = bills.reduce<Usage | undefined>((sum, bill) => addUsage(sum, bill.usage), undefined);
  return {
    summary: [answer.text.replace(FILE_TAG, "&lt;"), files].filter((part) => part !== "").join("\n\n"),
    ...lists,
    ...(usage ? { usage } : {}),
    source: answer.source ?? ask.summarizer.name,
    model: answer.model,
    ...(answer.missingSections ? { missingSections: answer.missingSections } : {}),
    ...(answer.omitted ? { omitted: answer.omitted } : {}),
    sources: prepared.sources,
    dropped: prepared.dropped,
  };
}

/** The lists at the end are the ones that count: prose cannot write any. */
const FILE_TAG = /<(?=\/?(?:read-files|modified-files)\b)/gi;

/** What is left for a branch; half of a window that is smaller than the reserve. */
const budgetOf = (contextWindow: number, reserveTokens: number): number =>
  reserveTokens < contextWindow ? contextWindow - reserveTokens : Math.floor(contextWindow / 2);
