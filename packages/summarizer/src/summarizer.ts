import type { ContextMessage, Usage } from "@espalier/session-tree";
import type { SummaryOmission } from "./sizing/summary-omission.ts";
import type { FailedAttempt } from "./summarizer-error.ts";

/**
 * What a summary is for. `history`: the older part of a path. `turn-prefix`: the beginning of a turn whose end is
 * kept. `branch`: the branch that is left. `merge`: a branch whose conclusion is brought elsewhere. `chunk`: a part of
 * one of these that did not fit into one request. `combine`: summaries of parts become one.
 */
export type SummaryPurpose = "history" | "turn-prefix" | "branch" | "merge" | "chunk" | "combine";

/** One request for a summary. A value: hooks may change it before it goes out. */
export interface SummaryRequest {
  purpose: SummaryPurpose;
  /** What to write and in which form; the prompt of the feature that asks. */
  instructions: string;
  /** Headings (as `## Goal` without the marks) that are asked for; empty when any form will do. */
  sections: readonly string[];
  /** The messages to summarise, oldest first. */
  messages: readonly ContextMessage[];
  /** The same messages rendered as escaped data between tags: what a model is shown. */
  transcript: string;
  /** The summary to update, when there is one. */
  previousSummary?: string;
  /** What the user wants the summary to attend to. */
  customInstructions?: string;
  /** The system prompt of a standalone request, where the feature that asks has one of its own. */
  systemPrompt?: string;
  /** The most tokens the answer may have. */
  maxOutputTokens: number;
  /** Called with progress while the answer streams in. */
  onProgress?: (progress: SummaryProgress) => void;
  /** Ends the request; the error is then `aborted`. */
  signal?: AbortSignal;
}

/** How far a running summary is. */
export interface SummaryProgress {
  /** Tokens of the answer so far (characters / 4 while it streams). */
  outputTokens: number;
  /** Milliseconds since the request went out. */
  elapsedMs: number;
}

/** How an answer ended. Only `stop` can become a summary. */
export type SummaryStopReason = "stop" | "length" | "refusal" | "toolUse" | "error";

/** What a summarizer answered. */
export interface SummaryAnswer {
  text: string;
  stopReason: SummaryStopReason;
  /** What the provider billed for this answer (all its parts); absent where nothing was. */
  usage?: Usage;
  /** Who wrote it: a model, or `extractive`. */
  model: { provider: string; modelId: string };
  /** The name of the summarizer that answered, where several were tried. */
  source?: string;
  /** What failed before it, oldest first; the whole bill is `usage` and the usage of these. */
  attempts?: readonly FailedAttempt[];
  /** Headings that were asked for and are not in the text; absent where none is missing. */
  missingSections?: readonly string[];
  /** What the request had to shorten or drop, where it was sized. */
  omitted?: SummaryOmission;
  /** Requests that answered, where there was more than one. */
  calls?: number;
}

/**
 * Turns a transcript into a summary. It answers or throws a {@link SummarizerError}; it never decides whether the
 * answer is good enough to keep.
 */
export interface Summarizer {
  /** Named in what a compaction records: `extractive`, `anthropic`. */
  readonly name: string;
  /** The model it asks, where it asks one and the same: what a call that came to nothing is billed to. */
  readonly model?: { provider: string; modelId: string };
  /** Tokens that one request and its answer may take together; Infinity where there is no such limit. */
  readonly contextWindow: number;
  /** The most tokens one answer can have. */
  readonly maxOutputTokens: number;
  /** Answers one request, or throws; an abort of its signal is a `SummarizerError` `aborted`. */
  summarize(request: SummaryRequest): Promise<SummaryAnswer>;
  /**
   * The exact size of a request as it is, in tokens; undefined when nobody can say. Asked only where an upper bound
   * does not settle whether a request fits. Absent: bounds decide alone.
   */
  promptTokens?(request: SummaryRequest): Promise<number | undefined>;
}
