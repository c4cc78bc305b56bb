import type { ContextMessage } from "@espalier/session-tree";
import { extractiveSummarizer } from "./extractive/summarizer.ts";
import { type FittingOptions, summarizeFitting, withFitting } from "./fitting.ts";
import { validAnswer, withFallback, withFallbackFor, withRetry } from "./retry.ts";
import type {
  Summarizer,
  SummaryAnswer,
  SummaryProgress,
  SummaryPurpose,
  SummaryRequest,
} from "./summarizer.ts";
import { renderTranscript } from "./transcript.ts";
import { missingSections } from "./validate-summary.ts";

/** How a summary is asked for, whatever feature asks. */
export interface RequestSummaryOptions {
  summarizer: Summarizer;
  /** Told to hooks, and decides how an extractive summary is laid out. */
  purpose: SummaryPurpose;
  /** What to write and in which form. */
  instructions: string;
  /** Headings that are asked for. What is missing is in the answer's `missingSections`. */
  sections: readonly string[];
  /** The most tokens of the summary. */
  maxOutputTokens: number;
  /** The system prompt of the request, for a feature with one of its own. */
  systemPrompt?: string;
  /** The summary to bring up to date. Default: a new one is written. */
  previousSummary?: string;
  /** What the user wants the summary to attend to. */
  customInstructions?: string;
  /** Parts of one summary asked for at the same time, where it takes several. Default 2. */
  concurrency?: number;
  /** Ends all requests; the error is then `aborted`. */
  signal?: AbortSignal;
  /** Told how long the answer is while it streams in. */
  onProgress?: (progress: SummaryProgress) => void;
  /** Sees the request before it goes out, and may change it. */
  onRequest?: (request: SummaryRequest) => SummaryRequest | Promise<SummaryRequest>;
}

/** Asks for a summary of messages, whatever their size; the answer is valid, or this throws a `SummaryError`. */
export async function requestSummary(
  messages: readonly ContextMessage[],
  { summarizer, onRequest, concurrency, ...fields }: RequestSummaryOptions,
): Promise<SummaryAnswer> {
  const draft: SummaryRequest = { ...fields, messages, transcript: renderTranscript(messages) };
  const request = onRequest ? await onRequest(draft) : draft;
  // A chain sizes for each of its members; a bare model has to be asked for what it can take.
  const answer = Number.isFinite(summarizer.contextWindow)
    ? await summarizeFitting(summarizer, request, concurrency === undefined ? {} : { concurrency })
    : await summarizer.summarize(request);
  const text = answer.text.trim();
  const missing = missingSections(text, request.sections);
  return {
    ...validAnswer(summarizer.name, answer, request),
    text,
    ...(missing.length > 0 ? { missingSections: missing } : {}),
  };
}

/** How a chain is made. */
export interface ChainOptions {
  /** Whether `last` steps in whatever happens. Default false: for what is too long for the model alone. */
  fallback?: boolean;
  /** Who steps in. Default: the extractive summarizer, which needs no network and takes any size. */
  last?: Summarizer;
  /** How the summarizer is asked again. Default `withRetry`. */
  repeated?: (summarizer: Summarizer) => Summarizer;
  /** How its requests are sized. */
  fitting?: FittingOptions;
}

/** The extractive summarizer, by the name that it gives itself. */
export const isExtractive = ({ name }: Pick<Summarizer, "name">): boolean => name === EXTRACTIVE.name;
const EXTRACTIVE = extractiveSummarizer();

/**
 * A summarizer made ready for any history: asked again when trouble passes, its requests sized to fit, another one
 * behind it. The extractive one needs nothing of that, and is answered as it is.
 */
export function chainOf(summarizer: Summarizer, options: ChainOptions = {}): Summarizer {
  if (isExtractive(summarizer)) return summarizer;
  const { fallback = false, last = EXTRACTIVE, repeated = withRetry, fitting = {} } = options;
  const sized = withFitting(repeated(summarizer), fitting);
  return fallback ? withFallback(sized, last) : withFallbackFor(["too-long"], sized, last);
}
