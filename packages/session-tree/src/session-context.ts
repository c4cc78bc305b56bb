import type { Settings } from "./entry.ts";
import type { ContextMessage } from "./message.ts";

/** What the tree says to a model at a leaf: a pure function of the leaf's path. */
export interface SessionContext extends Settings {
  /** Neutral messages, oldest first; failed, aborted and excluded ones are among them. */
  messages: ContextMessage[];
  /** The entry that each message comes from. */
  sources: string[];
  /**
   * For each message: true when something before it in the context is no longer what it was when the message was
   * made (a compaction or an edit came later). Signed reasoning of such a message cannot be sent back.
   */
  prefixChanged: boolean[];
  /** Rough size of all messages: characters / 4, rounded up per message. */
  tokens: number;
}
