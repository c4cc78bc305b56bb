import type { CompactionSettings, Policy } from "@espalier/compaction";
import type { ExtensionHost } from "@espalier/extensions";
import type { EventBus, OffloadStorage, PolicyLog, Sleep } from "@espalier/policies";
import type { Entry, EntryKind, NewEntry, Redact, SessionStore, SessionTree } from "@espalier/session-tree";
import type { FileTool, Summarizer, SummaryProgress } from "@espalier/summarizer";
import type { ExtensionContext, ExtensionModels, ExtensionUi } from "./extension-context.ts";
import type { ExtensionMembers } from "./extension-members.ts";
import type { EngineHooks, StartReason } from "./hooks.ts";
import type { PolicyName, PolicySettings } from "./policies.ts";

/** The host that holds a session's extensions. */
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
  /** When to compact and what to keep: a policy, or the name of one. Default `token-budget`. */
  policy?: Policy | PolicyName;
  /** What policies chosen by name are told; defaults fill in the rest. */
  policySettings?: PolicySettings;
  /** When to compact by itself and how much to keep. Default `DEFAULT_COMPACTION_SETTINGS`. */
  compaction?: Partial<CompactionSettings>;
  /** Summaries asked for at the same time. Default 2; 1 for servers that take one request at a time. */
  concurrency?: number;
  /**
   * Kinds of entry besides those of the format, made with `defineEntry`: asked what their entries tell the model, what is
   * wrong with one, how durable an append is, and how it is drawn. Without its kind an entry is kept and shown as data.
   */
  kinds?: readonly EntryKind[];
  /** What tools declare about files, besides the common ones. */
  tools?: readonly FileTool[];
  /** Where extensions can be heard, and ask. */
  ui?: ExtensionUi;
  /** Models that extensions may ask, by provider and id. Default: there are none. */
  models?: ExtensionModels;
  /** What extensions are told of why the session was opened. Default `startup`. */
  startReason?: StartReason;
  /**
   * Takes secrets out of every text before it is written, so that neither the file nor the model's context has them.
   * Default: well-known shapes of keys (`redactText`). False: everything is written as it is.
   */
  redact?: Redact | false;
  /** Where results lie that were moved out of the context. Default: the folder beside the session's file. */
  offloadStorage?: OffloadStorage;
  /** The summarizer for a model that a policy names; undefined for one that cannot be reached. */
  summarizerForModel?: (model: string) => Summarizer | undefined;
  /** Tells of progress, changes and failures. Default: a bus of the session's own. */
  events?: EventBus;
  /** Hears what went wrong without stopping anything. Default `console`, which writes to stderr. */
  log?: PolicyLog;
  /** The time, epoch milliseconds. Default: the system's. */
  now?: () => number;
  /** How one waits between two attempts at a summary. Default: by the clock of the system. */
  sleep?: Sleep;
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
  /** When to compact and what to keep, as the settings of the model in force say. */
  readonly policy: Policy;
  readonly events: EventBus;
  readonly log: PolicyLog;
  /** Undefined for a session that is no file, where none was given. */
  readonly offloadStorage: OffloadStorage | undefined;
  /** True where nothing is written, whatever is called. */
  readonly isReadOnly: boolean;
  /** What extensions registered besides handlers, and share. */
  readonly extensionMembers: ExtensionMembers;
  /** Epoch milliseconds. */
  now(): number;
  /** Has closing wait for what an extension began and nobody else waits for. */
  track(act: Promise<unknown>): void;
  /** Waits for what was tracked, and what that began. */
  settle(): Promise<void>;
  /**
   * Appends, as `core.append` does, unless `check` throws. It is called when all handlers have seen the entries and
   * nothing of ours can come between it and the write.
   */
  appendChecked(entries: readonly NewEntry[], check: () => void): Promise<Entry[]>;
}
