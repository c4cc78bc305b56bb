import type { ContextMessage } from "@espalier/session-tree";
import { isSummaryError, type Summarizer, withFitting, withRetry } from "@espalier/summarizer";
import { generateSummary as askForSummary } from "../compact.ts";
import { checkSettings } from "../settings.ts";
import { type CompactionCounts, EventBus, EventType, type PolicyLog, progressMessage } from "./events.ts";
import {
  CompactionTrigger,
  HistoryPruner,
  PRESSURE_SETTINGS,
  type PressureLevel,
  type PressureSettings,
  pruneTarget,
  TokenCounter,
} from "./pressure.ts";

/** Result of one check of a history (origins 004). */
export interface CompactionResult extends CompactionCounts {
  /** False: `messages` is the unchanged history. */
  performed: boolean;
  level: PressureLevel;
  /** History for the next request. */
  messages: ContextMessage[];
}

/** Stores compacted histories (origins 004). */
export interface SessionManager {
  /** Stores a compaction: the new history, and the summary that it includes. */
  compactSession(
    sessionId: string,
    messages: readonly ContextMessage[],
    summary: string,
  ): void | Promise<void>;
}

/** Options of a `SessionCompactor`. */
export interface SessionCompactorOptions {
  /** Differences from `DEFAULT_PRESSURE_SETTINGS`. */
  settings?: Partial<PressureSettings>;
  /** False: nothing is done. Default true. */
  autoCompact?: boolean;
  /** Bus for progress and results. Default: a new bus, available as `events`. */
  events?: EventBus;
  /** Log of failures, which stop no operation. Default `console`. */
  log?: PolicyLog;
  /** Aborts the request for a summary. */
  signal?: AbortSignal;
}

/** Share of the pruned size that is reserved for the summary. */
const SUMMARY_SHARE = 0.25;
const LARGEST_SUMMARY = 2_000;

/** Smallest share of the limit whose removal is worth a request; the summary of fewer tokens would hardly be smaller. */
const LEAST_SHARE = 0.01;

/** Checks a plain history before each request; prunes and summarizes it when it reaches a level (origins 004). */
export class SessionCompactor {
  /** Bus for progress and results. */
  readonly events: EventBus;
  readonly #summarizer: Summarizer;
  readonly #sessionManager: SessionManager | undefined;
  readonly #settings: PressureSettings;
  readonly #options: SessionCompactorOptions;

  /** @throws EspalierError `settings` */
  constructor(
    summarizer: Summarizer,
    sessionManager?: SessionManager,
    options: SessionCompactorOptions = {},
  ) {
    this.#summarizer = summarizer;
    this.#sessionManager = sessionManager;
    this.#options = options;
    this.#settings = checkSettings(PRESSURE_SETTINGS, options.settings);
    this.events = options.events ?? new EventBus();
  }

  /**
   * Compacts if the history reaches a level, and the messages that may be removed have at least 1 % of its limit. After
   * an error, or a summary that is not smaller, the history is unchanged; both are logged and published. An abort is
   * thrown.
   */
  async maybeCompact(
    sessionId: string,
    history: readonly ContextMessage[],
    systemPrompt: string,
  ): Promise<CompactionResult> {
    const tokensBefore = TokenCounter.request(history, systemPrompt);
    const level = CompactionTrigger.checkLevel(tokensBefore, this.#settings);
    const counts = { tokensBefore, tokensAfter: tokensBefore, messagesRemoved: 0 };
    const unchanged = { performed: false, level, ...counts, messages: [...history] };
    if (level === "NONE" || this.#options.autoCompact === false) return unchanged;
    const target = pruneTarget(level, this.#settings);
    const room = Math.min(LARGEST_SUMMARY, Math.floor(target * SUMMARY_SHARE));
    const overhead = tokensBefore - TokenCounter.messages(history);
    const { kept, removed } = HistoryPruner.prune(history, target - overhead - room);
    if (TokenCounter.messages(removed) < this.#settings.maxContextTokens * LEAST_SHARE) return unchanged;
    const message = progressMessage(tokensBefore / this.#settings.maxContextTokens);
    this.events.publish(EventType.PROGRESS_UPDATE, { message });
    try {
      const summary = await SummaryGenerator.generate(removed, {
        summarizer: this.#summarizer,
        maxOutputTokens: Math.max(256, room),
        ...(this.#options.signal ? { signal: this.#options.signal } : {}),
      });
      const messages = withSummary(summary, kept, tokensBefore);
      const tokensAfter = TokenCounter.request(messages, systemPrompt);
      if (tokensAfter >= tokensBefore)
        throw new Error("its summary is not smaller than the messages; retry or choose another summarizer.");
      await this.#sessionManager?.compactSession(sessionId, messages, summary);
      const data = { tokensBefore, tokensAfter, messagesRemoved: removed.length };
      this.events.publish(EventType.STATE_CHANGED, { name: "session.compaction", data });
      return { performed: true, level, ...data, messages };
    } catch (error) {
      if (isSummaryError(error) && error.code === "aborted") throw error;
      const reason = error instanceof Error ? error.message : String(error);
      const message = `Session ${sessionId} was not compacted, and is unchanged: ${reason}`;
      (this.#options.log ?? console).error(message, { error });
      this.events.publish(EventType.ERROR, { name: "session.compaction", message });
      return unchanged;
    }
  }
}

function withSummary(summary: string, kept: readonly ContextMessage[], tokensBefore: number) {
  const first = kept.findIndex(({ role }) => role !== "system");
  const said: ContextMessage = { role: "compactionSummary", summary, tokensBefore, timestamp: Date.now() };
  return kept.toSpliced(first < 0 ? kept.length : first, 0, said);
}

/** Summarizer and limits of a summary. */
export interface SummaryGeneratorOptions {
  summarizer: Summarizer;
  /** Maximum number of tokens of the summary. */
  maxOutputTokens?: number;
  /** Summary that the new one updates. */
  previousSummary?: string;
  /** Aborts the request. Default: no signal. */
  signal?: AbortSignal;
}

/** Summarizes pruned messages (origins 004). */
export const SummaryGenerator = {
  /** Returns the summary of the messages. @throws SummaryError when the request fails or the answer is not valid */
  async generate(messages: readonly ContextMessage[], options: SummaryGeneratorOptions): Promise<string> {
    const { summarizer, ...asked } = options;
    const patient = withFitting(withRetry(summarizer));
    const answer = await askForSummary(messages, { ...asked, summarizer: patient, sections: [] });
    return answer.text;
  },
} as const;
