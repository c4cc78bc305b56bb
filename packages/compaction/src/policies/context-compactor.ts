import { type ContextMessage, type Entry, estimateTotal } from "@espalier/session-tree";
import {
  isSummaryError,
  missingSections,
  renderTranscript,
  type Sleep,
  type Summarizer,
  withFitting,
  withRetry,
} from "@espalier/summarizer";
import { COMPACT_SUMMARY_SECTIONS, COMPACT_SUMMARY_TASK } from "../prompts.ts";
import type { PolicyLog } from "./events.ts";
import { cutKeeping } from "./message-count.ts";
import { DEFAULT_OFFLOAD_SETTINGS } from "./offload.ts";
import {
  COMPRESSED_HISTORY_HEADING,
  cleanupOffloadedFiles,
  compactSummaryPrompt,
  type OffloadStorage,
  OUTPUT_MARGIN,
  offloadedPaths,
  restoreOffloadedContent,
  WHOLE_RESULTS_FIRST,
} from "./offload-storage.ts";

/** Result of compacting a conversation (origins 003). Sizes are tokens. */
export interface CompactResult {
  /** The conversation after the compaction. */
  messages: ContextMessage[];
  previousTokens: number;
  currentTokens: number;
  freedTokens: number;
  /** Number of messages that were kept unchanged: all of them when nothing was summarized. */
  preservedCount: number;
  /** Paths of the removed files. */
  deletedFiles: string[];
  /** Requested headings that the summary lacks; absent when none is missing. */
  missingSections?: string[];
  /** False: the summary failed, and the messages are unchanged. True also when there was nothing to summarize. */
  success: boolean;
}

/** Options of a conversation's compaction (origins 003). */
export interface CompactOptions {
  /** Target length of the summary in tokens. Default 8,000. */
  targetTokens?: number;
  /** Minimum number of newest messages to keep. Default 5. */
  preserveCount?: number;
  /** The model of the summary. Default: the summarizer's own. */
  model?: string;
  /** Maximum number of attempts. Default 3. */
  retryCount?: number;
}

/** Options of a `ContextCompactor`; defaults of `targetTokens` and the others as in `CompactOptions`. */
export interface ContextCompactorOptions
  extends CompactOptions,
    Pick<GenerateSummaryOptions, "sleep" | "log" | "signal"> {
  /** Replaces the old conversation with the new one; an error stops the compaction and is thrown. */
  commit?: (messages: readonly ContextMessage[]) => Promise<void>;
  /** Receives the result at the end, also that of a failed summary. */
  notify?: (result: CompactResult) => void;
}

/** Returns the summarizer for a model; the default one when no model is named. */
export type SummarizerForModel = (model: string | undefined) => Summarizer;

/**
 * Compacts a plain list of messages (origins 003) in these steps: split, read offloaded results back, summarize, build,
 * commit, remove files that no message refers to, notify.
 */
export class ContextCompactor {
  readonly #storage: OffloadStorage;
  readonly #summarizer: SummarizerForModel;
  readonly #options: ContextCompactorOptions;

  /** @param summarizer a summarizer, or a function that returns one for `options.model` */
  constructor(
    storage: OffloadStorage,
    summarizer: Summarizer | SummarizerForModel,
    options: ContextCompactorOptions = {},
  ) {
    this.#storage = storage;
    this.#summarizer = typeof summarizer === "function" ? summarizer : () => summarizer;
    this.#options = options;
  }

  /**
   * Compacts the messages. When the summary fails, the result has `success: false` and the unchanged messages. An
   * abort, and an error of the storage or of `commit`, is thrown.
   */
  async compact(messages: readonly ContextMessage[]): Promise<CompactResult> {
    const { preserveCount, model, log = console, commit, notify } = this.#options;
    const previousTokens = estimateTotal(messages);
    const result: CompactResult = {
      messages: [...messages],
      previousTokens,
      currentTokens: previousTokens,
      freedTokens: 0,
      preservedCount: messages.length,
      deletedFiles: [],
      success: true,
    };
    const { toCompress, toPreserve } = splitMessages(messages, preserveCount);
    if (toCompress.length > 0) {
      const restored = await restoreOffloadedContent(toCompress, this.#storage);
      try {
        const asked = { ...this.#options, summarizer: this.#summarizer(model) };
        const summary = await generateSummary(restored, asked);
        result.messages = buildCompressedHistory(summary, toPreserve);
        const missing = missingSections(summary, COMPACT_SUMMARY_SECTIONS);
        if (missing.length > 0) result.missingSections = missing;
      } catch (error) {
        if (!isSummaryError(error) || error.code === "aborted") throw error;
        log.error("Compaction failed, history unchanged", { error });
        result.success = false;
      }
    }
    if (toCompress.length > 0 && result.success) {
      await commit?.(result.messages);
      const referenced = new Set(offloadedPaths(result.messages));
      result.deletedFiles = await cleanupOffloadedFiles(this.#storage, referenced, log);
      result.currentTokens = estimateTotal(result.messages);
      result.freedTokens = previousTokens - result.currentTokens;
      result.preservedCount = toPreserve.length;
    }
    notify?.(result);
    return result;
  }
}

/** The two parts of a conversation: messages to summarize and messages to keep. */
export interface SplitMessages {
  toCompress: ContextMessage[];
  toPreserve: ContextMessage[];
}

/**
 * Splits off the newest `preserveCount` messages (default 5), or more when the split would separate a call from its
 * results.
 */
export function splitMessages(
  messages: readonly ContextMessage[],
  preserveCount: number = DEFAULT_OFFLOAD_SETTINGS.preserveCount,
): SplitMessages {
  const items = messages.map((message) => ({ entry: NO_ENTRY, messages: [message] }));
  const at = Math.max(0, cutKeeping(items, preserveCount));
  return { toCompress: messages.slice(0, at), toPreserve: messages.slice(at) };
}

/** Placeholder entry: a cut between messages depends on the messages alone. */
const NO_ENTRY = { type: "message", id: "", parentId: null, timestamp: "" } as Entry;

/** Puts the summary, as one user message, before the preserved messages. */
export function buildCompressedHistory(
  summary: string,
  preserved: readonly ContextMessage[],
  now: number = Date.now(),
): ContextMessage[] {
  return [{ role: "user", content: `${COMPRESSED_HISTORY_HEADING}${summary}`, timestamp: now }, ...preserved];
}

/** Summarizer, length and attempts; defaults as in `CompactOptions`. */
export interface GenerateSummaryOptions
  extends Pick<CompactOptions, "targetTokens" | "retryCount">,
    Pick<RetriesOptions, "sleep" | "log"> {
  summarizer: Summarizer;
  /** Aborts the request and every wait between attempts; the error is `aborted`. */
  signal?: AbortSignal;
}

/**
 * Requests the summary of a conversation under the eight headings. A summary longer than its target is accepted; an
 * answer that is cut off at 1.2 times the target is a failed attempt, like any other failure.
 *
 * @throws SummaryError of the last of `retryCount` attempts; `aborted` at once
 */
export async function generateSummary(
  messages: readonly ContextMessage[],
  options: GenerateSummaryOptions,
): Promise<string> {
  const { targetTokens = DEFAULT_OFFLOAD_SETTINGS.targetTokens, signal } = options;
  const { summarizer, retryCount = DEFAULT_OFFLOAD_SETTINGS.retryCount, ...asking } = options;
  const patient = withRetries(summarizer, { ...asking, attempts: retryCount });
  const sized = withFitting(patient, { toolResultLimits: WHOLE_RESULTS_FIRST });
  const answer = await sized.summarize({
    purpose: "history",
    systemPrompt: compactSummaryPrompt(targetTokens),
    instructions: COMPACT_SUMMARY_TASK,
    sections: COMPACT_SUMMARY_SECTIONS,
    messages,
    transcript: renderTranscript(messages, { toolResultLimit: WHOLE_RESULTS_FIRST[0]! }),
    maxOutputTokens: Math.floor(targetTokens * OUTPUT_MARGIN),
    ...(signal ? { signal } : {}),
  });
  return answer.text.trim();
}

/** Options of the attempts at a summary. */
export interface RetriesOptions {
  /** Maximum number of attempts. Default 3. */
  attempts?: number;
  /** Waits; rejects as soon as the signal is aborted. */
  sleep?: Sleep;
  /** Receives a warning for each failure. Default `console`. */
  log?: PolicyLog;
}

/** Wait after failure n: n times this number of milliseconds (origins 003). */
const DELAY_MS = 1_000;

/**
 * Retries after every failure, including an invalid answer; only an abort ends the attempts at once. Each failure is a
 * warning. The error after the last attempt has the usage of all attempts.
 */
export function withRetries(summarizer: Summarizer, options: RetriesOptions): Summarizer {
  const { attempts = 3, sleep, log = console } = options;
  return withRetry(summarizer, {
    attempts,
    every: true,
    stricter: false,
    delayMs: (failure) => failure * DELAY_MS,
    onFailure: (failure, error) => log.warn(`Compact summary attempt ${failure} failed`, { error }),
    ...(sleep ? { sleep } : {}),
  });
}
