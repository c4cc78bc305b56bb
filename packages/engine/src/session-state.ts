import type { CompactionSettings, Policy } from "@espalier/compaction";
import type { ExtensionHost } from "@espalier/extensions";
import type { Entry, NewEntry, SessionStore, SessionTree } from "@espalier/session-tree";
import type { FileTool, Summarizer, SummaryProgress } from "@espalier/summarizer";
import type { ExtensionContext, ExtensionUi } from "./extension-context.ts";
import type { EngineHooks } from "./hooks.ts";

export type EngineHost = ExtensionHost<EngineHooks, ExtensionContext>;

/** How a session summarises and compacts, and what a shell lends it. */
export interface SessionOptions {
  /** Writes summaries. Default: the extractive one, which needs no network. */
  summarizer?: Summarizer;
  /**
   * Whether the extractive summarizer steps in when `summarizer` fails. Default: for automatic compactions, and, for
   * commands, only when none was named; always for what is too long for the model.
   */
  fallback?: boolean;
  /** When to compact and what to keep. Default `token-budget`. */
  policy?: Policy;
  compaction?: Partial<CompactionSettings>;
  /** Summaries asked for at the same time. Default 2; 1 for servers that take one request at a time. */
  concurrency?: number;
  /** What tools declare about files, besides the common ones. */
  tools?: readonly FileTool[];
  /** Where extensions can be heard. */
  ui?: ExtensionUi;
}

/** What one act of a shell may be given. */
export interface ActOptions {
  /** Ends it; nothing of it is then in the log. */
  signal?: AbortSignal;
  /** Hears how far a summary is. */
  onProgress?: (progress: SummaryProgress) => void;
}

/** An open session, as the functions behind its methods see it. */
export interface SessionState {
  readonly core: SessionTree;
  readonly store: SessionStore;
  readonly host: EngineHost;
  readonly options: SessionOptions;
  /**
   * Appends, as `core.append` does, unless `check` throws. It is called when all handlers have seen the entries and
   * nothing of ours can come between it and the write.
   */
  appendChecked(entries: readonly NewEntry[], check: () => void): Promise<Entry[]>;
}
