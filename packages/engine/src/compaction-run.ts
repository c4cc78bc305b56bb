import type {
  CompactionDetails,
  CompactionPreparation,
  CompactionReason,
  Policy,
  PolicySituation,
} from "@espalier/compaction";
import type { Usage } from "@espalier/session-tree";
import type { Summarizer } from "@espalier/summarizer";
import type { CompactionRequest } from "./compaction-request.ts";
import type { ActOptions, SessionState } from "./session-state.ts";

/** What one compaction differs in from what the session was opened with. */
export interface CompactSessionOptions extends CompactionRequest, ActOptions {
  /** What the summary shall attend to. */
  instructions?: string;
  /** Writes this summary. Default: the session's. */
  summarizer?: Summarizer;
  /** Whether the extractive summarizer steps in; see `SessionOptions.fallback`. */
  fallback?: boolean;
  /** Whether a request that was too long is sent again afterwards; extensions are told. Default: after an `overflow`. */
  willRetry?: boolean;
}

/** A compaction that is in the log. */
export interface CompactionResult {
  eligible: true;
  entryId: string;
  summary: string;
  tokensBefore: number;
  tokensAfter: number;
  firstKeptEntryId: string;
  /** Who wrote the summary: a summarizer's name, or `extension`. */
  source: string;
  /** Headings that the summary was asked for and does not have; absent where none is missing. */
  missingSections?: string[];
  /** Entries that shorten what was kept, or take it out. */
  editIds: string[];
  /** Messages that the summary stands for, and messages that stayed. */
  messagesRemoved: number;
  preservedCount: number;
  /** Files of offloaded results that nothing refers to any more. */
  deletedFiles: string[];
  usage: Usage | null;
}

/** A compaction that is going on: what was asked for and what is planned. */
export interface CompactionRun {
  session: SessionState;
  options: CompactSessionOptions;
  policy: Policy;
  situation: PolicySituation;
  plan: CompactionPreparation;
  reason: CompactionReason;
  willRetry: boolean;
  signal: AbortSignal;
  /** The id that the compaction's entry will have, where somebody may name it. */
  compactionId: string;
  /** Epoch milliseconds. */
  started: number;
  /** Whether what is about to be committed was made by an extension. */
  isProposed: boolean;
}

/** A summary that wants to be committed. */
export interface CompactionCandidate {
  summary: string;
  firstKeptEntryId: string;
  /** Who wrote it: a summarizer's name, or `extension`. */
  source: string;
  model: { provider: string; modelId: string } | null;
  usage: Usage | undefined;
  tokensBefore: number;
  details: Partial<CompactionDetails> & Record<string, unknown>;
  fromHook: boolean;
}
