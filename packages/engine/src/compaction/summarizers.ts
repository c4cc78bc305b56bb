import type { SummaryStyle } from "@espalier/compaction";
import { withRetries } from "@espalier/compaction/policies";
import { CHARS_PER_TOKEN } from "@espalier/session-tree";
import {
  anthropicSummarizer,
  chainOf,
  extractiveSummarizer,
  isExtractive,
  type Summarizer,
  withRetry,
  withSummarize,
} from "@espalier/summarizer";
import { contextForHandlers } from "../extensions/context.ts";
import type { Session } from "../session/session.ts";
import { summaryRequest } from "../session/state.ts";
import { refuseOverBudget } from "../turn/budget.ts";

/** Use of a summarizer. */
interface ChainOptions {
  /**
   * True if the extractive summarizer replaces any failed answer; else only for what is too long for the model alone.
   */
  fallback: boolean;
  /** Requests that one summary may have under way at the same time. */
  concurrency: number;
  signal: AbortSignal;
  /** Form of the request, by the policy. */
  style?: SummaryStyle | undefined;
}

/**
 * A summarizer made ready for any history: shown to extensions, asked again when trouble passes, its requests sized,
 * the extractive one behind it.
 */
export function summarizerChain(
  session: Session,
  summarizer: Summarizer,
  { fallback, concurrency, signal, style }: ChainOptions,
): Summarizer {
  return chainOf(shownToExtensions(session, withinBudget(session, summarizer), signal), {
    fallback,
    last: shownToExtensions(session, EXTRACTIVE, signal),
    repeated: (shown) => withSessionRetries(session, shown, style),
    fitting: {
      concurrency,
      ...(style?.toolResultLimits ? { toolResultLimits: style.toolResultLimits } : {}),
    },
  });
}

/** Retries when trouble passes, or, where a policy says how often, after every failure. */
function withSessionRetries(
  { logger: log, options: { sleep } }: Session,
  shown: Summarizer,
  style?: SummaryStyle,
): Summarizer {
  const waiting = sleep ? { sleep } : {};
  if (!style?.attempts) return withRetry(shown, waiting);
  return withRetries(shown, { attempts: style.attempts, log, ...waiting });
}

/** The summarizer that needs no network. */
export const EXTRACTIVE = extractiveSummarizer();

/** Summaries asked for at the same time where a session says nothing else. */
export const DEFAULT_CONCURRENCY = 2;

/**
 * Returns the summarizer of a session: that of the model that a policy names, where it can be reached, else the
 * session's own, with a notice; undefined where the session has none.
 */
export function summarizerOf({ options, logger }: Session, model?: string): Summarizer | undefined {
  if (!model) return options.summarizer;
  const named = options.summarizerForModel?.(model) ?? sameProvider(options.summarizer, model);
  if (!named)
    logger.warn(`No summarizer is available for the model ${model}; the session's own writes the summaries.`);
  return named ?? options.summarizer;
}

/** Another model of Claude's, where Claude is asked anyway. */
function sameProvider(summarizer: Summarizer | undefined, model: string): Summarizer | undefined {
  const canAsk = summarizer?.name === "anthropic" && process.env["ANTHROPIC_API_KEY"];
  return canAsk ? anthropicSummarizer({ model }) : undefined;
}

/** Wraps a summarizer so that extensions see each request before it is sent; returns it unchanged when none listens. */
function shownToExtensions(session: Session, summarizer: Summarizer, signal: AbortSignal): Summarizer {
  const { host } = session;
  if (!host.has(summaryRequest)) return summarizer;
  // Progress and abort are the caller's: an extension sees and changes what is asked, not how it is waited for.
  return withSummarize(summarizer, async ({ signal: ownSignal, onProgress, ...request }) => {
    const changed = await host.transform(summaryRequest, request, contextForHandlers(session, signal));
    return summarizer.summarize({
      ...changed,
      ...(ownSignal ? { signal: ownSignal } : {}),
      ...(onProgress ? { onProgress } : {}),
    });
  });
}

/** Wraps a summarizer so that each call is checked against the budget; one without a model costs nothing. */
function withinBudget(session: Session, summarizer: Summarizer): Summarizer {
  if (session.options.maxCost === undefined || isExtractive(summarizer)) return summarizer;
  return withSummarize(summarizer, async (request) => {
    const tokens = Math.ceil(request.transcript.length / CHARS_PER_TOKEN);
    await refuseOverBudget(session, tokens, summarizer.model ?? null);
    return summarizer.summarize(request);
  });
}
