import type { ContextMessage } from "@espalier/session-tree";
import { type Summarizer, SummarizerError } from "@espalier/summarizer";
import { CompactionTrigger, type PressureLevel } from "./compaction-trigger.ts";
import { type CompactionCounts, EventBus, EventType, progressMessage } from "./event-bus.ts";
import { HistoryPruner } from "./history-pruner.ts";
import type { PolicyLog } from "./policy-log.ts";
import { checkPressureSettings, type PressureSettings, pruneTarget } from "./pressure-settings.ts";
import { SummaryGenerator } from "./summary-generator.ts";
import { TokenCounter } from "./token-counter.ts";

/** What came of one look at a history (origins 004). */
export interface CompactionResult extends CompactionCounts {
  /** False: `messages` is the history as it was. */
  performed: boolean;
  level: PressureLevel;
  /** The history to go on with. */
  messages: ContextMessage[];
}

/** Keeps what was compacted (origins 004). */
export interface SessionManager {
  /** Called after each compaction with the history to go on with and the summary in it. */
  compactSession(
    sessionId: string,
    messages: readonly ContextMessage[],
    summary: string,
  ): void | Promise<void>;
}

/** When a history is compacted, and who hears of it. */
export interface SessionCompactorOptions {
  /** What differs from `DEFAULT_PRESSURE_SETTINGS`. */
  settings?: Partial<PressureSettings>;
  /** False: nothing is done. Default true. */
  autoCompact?: boolean;
  /** Where progress and results are published. Default: a bus of its own, at `events`. */
  events?: EventBus;
  /** Where a failure is said, which stops nothing. Default `console`. */
  log?: PolicyLog;
  /** An abort ends the request for a summary. */
  signal?: AbortSignal;
}

/** The share of the pruned size that is kept free for the summary. */
const SUMMARY_SHARE = 0.25;
const LARGEST_SUMMARY = 2_000;

/** Looks at a plain history before each request, and prunes and summarises it when it presses (origins 004). */
export class SessionCompactor {
  /** Where progress and results are published. */
  readonly events: EventBus;
  readonly #summarizer: Summarizer;
  readonly #sessionManager: SessionManager | undefined;
  readonly #settings: PressureSettings;
  readonly #options: SessionCompactorOptions;

  /** @throws PolicyError `settings` */
  constructor(
    summarizer: Summarizer,
    sessionManager?: SessionManager,
    options: SessionCompactorOptions = {},
  ) {
    this.#summarizer = summarizer;
    this.#sessionManager = sessionManager;
    this.#options = options;
    this.#settings = checkPressureSettings(options.settings);
    this.events = options.events ?? new EventBus();
  }

  /**
   * Compacts if the history presses. Fails open: an error is logged and published, and the history is as it was. An
   * abort is thrown.
   */
  async maybeCompact(
    sessionId: string,
    history: readonly ContextMessage[],
    systemPrompt: string,
  ): Promise<CompactionResult> {
    const tokensBefore = TokenCounter.request(history, systemPrompt);
    const level = CompactionTrigger.checkLevel(tokensBefore, this.#settings);
    const unchanged = {
      performed: false,
      level,
      tokensBefore,
      tokensAfter: tokensBefore,
      messagesRemoved: 0,
      messages: [...history],
    };
    if (level === "NONE" || this.#options.autoCompact === false) return unchanged;
    const target = pruneTarget(level, this.#settings);
    const room = Math.min(LARGEST_SUMMARY, Math.floor(target * SUMMARY_SHARE));
    const overhead = tokensBefore - TokenCounter.messages(history);
    const { kept, removed } = HistoryPruner.prune(history, target - overhead - room);
    if (removed.length === 0) return unchanged;
    this.events.publish(EventType.PROGRESS_UPDATE, {
      message: progressMessage(tokensBefore / this.#settings.maxContextTokens),
    });
    try {
      const summary = await SummaryGenerator.generate(removed, {
        summarizer: this.#summarizer,
        maxOutputTokens: Math.max(256, room),
        ...(this.#options.signal ? { signal: this.#options.signal } : {}),
      });
      const messages = withSummary(summary, kept, tokensBefore);
      await this.#sessionManager?.compactSession(sessionId, messages, summary);
      const tokensAfter = TokenCounter.request(messages, systemPrompt);
      const data = { tokensBefore, tokensAfter, messagesRemoved: removed.length };
      this.events.publish(EventType.STATE_CHANGED, { name: "session.compaction", data });
      return { performed: true, level, ...data, messages };
    } catch (error) {
      if (error instanceof SummarizerError && error.code === "aborted") throw error;
      const reason = error instanceof Error ? error.message : String(error);
      const message = `Session ${sessionId} was not compacted, and goes on as it is: ${reason}`;
      (this.#options.log ?? console).error(message, { error });
      this.events.publish(EventType.ERROR, { name: "session.compaction", message });
      return unchanged;
    }
  }
}

/** The summary goes behind the system's words and before everything else. */
function withSummary(
  summary: string,
  kept: readonly ContextMessage[],
  tokensBefore: number,
): ContextMessage[] {
  const first = kept.findIndex(({ role }) => role !== "system");
  const at = first < 0 ? kept.length : first;
  const said: ContextMessage = { role: "compactionSummary", summary, tokensBefore, timestamp: Date.now() };
  return [...kept.slice(0, at), said, ...kept.slice(at)];
}
