import type { NothingToCompact } from "@espalier/compaction";
import { type Entry, kindOf } from "@espalier/session-tree";
import { reportFailure } from "./compaction-events.ts";
import { situationOf } from "./compaction-request.ts";
import type { CompactionResult, CompactSessionOptions } from "./compaction-run.ts";
import type { SessionState } from "./session-state.ts";

type Compact = (options: CompactSessionOptions) => Promise<CompactionResult | NothingToCompact>;

/**
 * Judges the policy after each append and lets it compact behind the conversation's back, one run at a time. What is
 * due meanwhile is remembered, and judged once more when the run has ended, however it ended.
 */
export class BackgroundPolicy {
  readonly #session: SessionState;
  readonly #compact: Compact;
  #running = false;
  #pending = false;
  #stopped = false;

  constructor(session: SessionState, compact: Compact) {
    this.#session = session;
    this.#compact = compact;
  }

  get isRunning(): boolean {
    return this.#running;
  }

  get isPending(): boolean {
    return this.#pending;
  }

  /** Begins nothing more; what is running goes on. */
  stop(): void {
    this.#stopped = true;
  }

  /** To be called after an append; never throws and never waits. */
  entriesAppended(entries: readonly Entry[]): void {
    if (this.#session.policy.judgedAt === "append" && entries.some(saysSomething)) this.#judge();
  }

  #judge(): void {
    if (this.#stopped || !this.#isDue()) return;
    if (this.#running) this.#pending = true;
    else void this.#run();
  }

  #isDue(): boolean {
    try {
      const situation = situationOf(this.#session, {});
      return situation.settings.autoCompact && this.#session.policy.judge(situation) !== undefined;
    } catch (error) {
      reportFailure(this.#session, error);
      return false;
    }
  }

  async #run(): Promise<void> {
    this.#running = true;
    try {
      await this.#compact({ reason: "policy" });
    } catch (error) {
      reportFailure(this.#session, error);
    }
    this.#running = false;
    if (!this.#pending) return;
    this.#pending = false;
    this.#judge();
  }
}

/** A new message; a summary that was committed is none. */
function saysSomething(entry: Entry): boolean {
  const kind = kindOf(entry);
  return kind.toMessages !== undefined && kind.firstKept === undefined;
}
