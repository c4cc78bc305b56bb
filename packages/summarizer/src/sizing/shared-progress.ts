import type { SummaryProgress, SummaryRequest } from "../summarizer.ts";

/** Adds up the progress of several calls, so that a reader sees one number grow. */
export interface SharedProgress {
  /** The part of the next call's request that reports its progress. */
  next(): Pick<SummaryRequest, "onProgress">;
}

export function sharedProgress(report: ((progress: SummaryProgress) => void) | undefined): SharedProgress {
  if (!report) return { next: () => ({}) };
  const startedAt = Date.now();
  const tokens: number[] = [];
  return {
    next() {
      const call = tokens.push(0) - 1;
      return {
        onProgress({ outputTokens }) {
          tokens[call] = outputTokens;
          report({
            outputTokens: tokens.reduce((sum, count) => sum + count, 0),
            elapsedMs: Date.now() - startedAt,
          });
        },
      };
    },
  };
}
