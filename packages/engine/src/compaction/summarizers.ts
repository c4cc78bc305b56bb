import type { SummaryStyle } from "@espalier/compaction";
import { withRetries } from "@espalier/compaction/policies";
import { CHARS_PER_TOKEN } from "@espalier/session-tree";
import {
  chainOf,
  extractiveSummarizer,
  isExtractive,
  type Summarizer,
  withRetry,
  withSummarize,
} from "@espalier/summarizer";
import { contextForHandlers } from "../extensions/context.ts";
import type { Session } from "../session/session.ts";
import { type ActOptions, summaryRequest } from "../session/state.ts";
import { refuseOverBudget } from "../turn/budget.ts";

interface ChainOptions extends Pick<ActOptions, "onProgress"> {
  /**
   * True: the extractive summarizer is used after any failure. False: only after a request that was too long for the
   * model.
   */
  fallback: boolean;
  signal: AbortSignal;
  /** Number of parts that are summarized at the same time. Default 1. */
  parts?: number;
  /** Form of the request, from the policy. */
  style?: SummaryStyle | undefined;
}

/**
 * Returns the options of a summary, with its summarizer prepared for any history: extensions see its requests, each is
 * checked against the budget, temporary failures are retried, long requests are split, and the extractive summarizer is
 * the fallback.
 */
export function summaryOptions(
  session: Session,
  summarizer: Summarizer,
  { fallback, signal, onProgress, parts = 1, style }: ChainOptions,
) {
  const { concurrency = DEFAULT_CONCURRENCY, sleep } = session.options;
  const waiting = sleep ? { sleep } : {};
  const attempts = style?.attempts;
  const chain = chainOf(shownToExtensions(session, withinBudget(session, summarizer), signal), {
    fallback,
    last: shownToExtensions(session, EXTRACTIVE, signal),
    // Temporary failures are retried, or every failure if a policy sets the number of attempts.
    repeated: (shown) =>
      attempts
        ? withRetries(shown, { attempts, log: session.logger, ...waiting })
        : withRetry(shown, waiting),
    fitting: {
      concurrency: Math.max(1, Math.floor(concurrency / parts)),
      ...(style?.toolResultLimits ? { toolResultLimits: style.toolResultLimits } : {}),
    },
  });
  return { summarizer: chain, signal, concurrency, ...(onProgress ? { onProgress } : {}) };
}

/** Summarizer without network. */
export const EXTRACTIVE = extractiveSummarizer();

/** Default number of simultaneous requests for summaries. */
const DEFAULT_CONCURRENCY = 2;

/**
 * Returns the summarizer of a session: that of the model that a policy names, if it is available, also by the same
 * provider; else the session's own, with a warning; undefined when the session has none.
 */
export function summarizerOf({ options, logger }: Session, model?: string): Summarizer | undefined {
  if (!model) return options.summarizer;
  const own = options.summarizer;
  // A setting may name the model as `provider/id`.
  const id = model.startsWith(`${own?.model?.provider}/`) ? model.slice(model.indexOf("/") + 1) : model;
  const named = options.summarizerForModel?.(model) ?? own?.withModel?.(id);
  if (!named)
    logger.warn(`No summarizer is available for the model ${model}; the session's own writes the summaries.`);
  return named ?? own;
}

/**
 * Wraps a summarizer so that extensions see each request before it is sent; returns it unchanged when no extension
 * listens.
 */
function shownToExtensions(session: Session, summarizer: Summarizer, signal: AbortSignal): Summarizer {
  const { host } = session;
  if (!host.has(summaryRequest)) return summarizer;
  // Progress and abort belong to the caller: an extension sees and changes only the content of the request.
  return withSummarize(summarizer, async ({ signal: ownSignal, onProgress, ...request }) => {
    const changed = await host.transform(summaryRequest, request, contextForHandlers(session, signal));
    return summarizer.summarize({
      ...changed,
      ...(ownSignal ? { signal: ownSignal } : {}),
      ...(onProgress ? { onProgress } : {}),
    });
  });
}

/** Wraps a summarizer so that each call is checked against `maxCost`, if set; the extractive summarizer is free. */
function withinBudget(session: Session, summarizer: Summarizer): Summarizer {
  if (session.options.maxCost === undefined || isExtractive(summarizer)) return summarizer;
  return withSummarize(summarizer, async (request) => {
    const tokens = Math.ceil(request.transcript.length / CHARS_PER_TOKEN);
    await refuseOverBudget(session, tokens, summarizer.model ?? null);
    return summarizer.summarize(request);
  });
}
