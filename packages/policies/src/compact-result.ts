import type { ContextMessage } from "@espalier/session-tree";

/** What came of compacting a conversation (origins 003). Sizes are tokens. */
export interface CompactResult {
  /** The conversation as it is now. */
  messages: ContextMessage[];
  previousTokens: number;
  currentTokens: number;
  freedTokens: number;
  /** Messages that stayed as they were. */
  preservedCount: number;
  deletedFiles: string[];
  /** Headings that the summary was asked for and does not have; absent where none is missing. */
  missingSections?: string[];
  /** False: no summary came about, and the messages are as they were. */
  success: boolean;
}

/** How a conversation is compacted (origins 003). */
export interface CompactOptions {
  /** How long the summary shall be. Default 8,000. */
  targetTokens?: number;
  /** The newest messages, which stay. Default 5. */
  preserveCount?: number;
  /** The model that summarises; default: the one at hand. */
  model?: string;
  /** Attempts in all. Default 3. */
  retryCount?: number;
}
