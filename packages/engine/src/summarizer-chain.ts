import type { SummaryStyle } from "@espalier/compaction";
import { askRepeatedly } from "@espalier/policies";
import { chainOf, extractiveSummarizer, type Summarizer, withRetry } from "@espalier/summarizer";
import type { SessionState } from "./session-state.ts";
import { shownToExtensions } from "./summary-request.ts";

/** What a summarizer is made ready for. */
export interface ChainOptions {
  /** Whether the extractive summarizer steps in whatever happens; else for what is too long for the model alone. */
  fallback: boolean;
  /** Requests that one summary may have under way at the same time. */
  concurrency: number;
  signal: AbortSignal;
  /** How a policy wants it asked. */
  style?: SummaryStyle | undefined;
}

/**
 * A summarizer made ready for any history: shown to extensions, asked again when trouble passes, its requests sized,
 * the extractive one behind it.
 */
export function summarizerChain(
  session: SessionState,
  summarizer: Summarizer,
  { fallback, concurrency, signal, style }: ChainOptions,
): Summarizer {
  return chainOf(shownToExtensions(session, summarizer, signal), {
    fallback,
    last: shownToExtensions(session, EXTRACTIVE, signal),
    repeated: (shown) => asked(session, shown, style),
    fitting: {
      concurrency,
      ...(style?.toolResultLimits ? { toolResultLimits: style.toolResultLimits } : {}),
    },
  });
}

/** Asked again when trouble passes, or, where a policy says how often, after every failure. */
function asked(
  { log, options: { sleep } }: SessionState,
  shown: Summarizer,
  style?: SummaryStyle,
): Summarizer {
  if (!style?.attempts) return withRetry(shown, sleep ? { sleep } : {});
  // Asked once, for the time that one request may take.
  const limited = withRetry(shown, { attempts: 1, stricter: false });
  return askRepeatedly(limited, { attempts: style.attempts, log, ...(sleep ? { sleep } : {}) });
}

/** The summarizer that needs no network. */
export const EXTRACTIVE = extractiveSummarizer();

/** Summaries asked for at the same time where a session says nothing else. */
export const DEFAULT_CONCURRENCY = 2;
