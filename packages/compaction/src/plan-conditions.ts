import { CHARS_PER_TOKEN, type ContextMessage } from "@espalier/session-tree";
import { type FileTool, upperBoundEstimator } from "@espalier/summarizer";
import type { CompactionSettings } from "./compaction-settings.ts";
import type { SummaryStyle } from "./summary-style.ts";

/** What a plan depends on besides the path. */
export interface PlanConditions {
  settings: CompactionSettings;
  /** Size of one message; the policy's estimator. */
  estimate: (message: ContextMessage) => number;
  /** What tools declare about files. Default: those of common agents. */
  tools?: readonly FileTool[];
  /** Tokens of system prompt and tools, which are sent besides the context. */
  overheadTokens: number;
  /** True after a provider said that the request was too long: what stays must then fit by an upper bound. */
  isOverflow: boolean;
  /** Entries that the user pinned; those that stay as they are need not be repeated. */
  pinned: readonly { id: string; text: string }[];
  /** The user's first message, where only the end of the path is at hand. */
  goal?: string;
  /** The user's newest message, where only the end of the path is at hand and none is in it. */
  latestUserMessage?: string;
  /** How the summary is asked for and written. */
  style?: SummaryStyle;
  /** Earlier summaries that stay in front of the new one. */
  stackedOn?: string;
}

/** How sizes are judged where something has to fit. */
export interface Sizes {
  message(message: ContextMessage): number;
  /** The size of a text that is still to be written, of so many tokens. */
  planned(tokens: number): number;
}

/** After an overflow nobody's estimate is to be trusted: what stays is measured so that it cannot be more. */
export function sizesUnder({ isOverflow, estimate }: Pick<PlanConditions, "isOverflow" | "estimate">): Sizes {
  return isOverflow
    ? { message: upperBoundEstimator.estimate, planned: (tokens) => tokens * CHARS_PER_TOKEN }
    : { message: estimate, planned: (tokens) => tokens };
}
