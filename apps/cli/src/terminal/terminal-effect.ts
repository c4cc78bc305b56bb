/** A change of a session, as the engine is asked for it. */
export type Act =
  | { name: "navigate"; entryId: string | null; summarize: boolean; instructions?: string }
  | { name: "fork"; entryId: string; position: "at" | "before" }
  | { name: "label"; entryId: string; text: string }
  | { name: "hide"; entryId: string; hidden: boolean }
  | { name: "rename"; text: string }
  | { name: "compact"; instructions?: string }
  | { name: "merge"; fromId: string; intoId?: string }
  | { name: "append"; text: string }
  | { name: "undo" };

/** What shall happen outside of the terminal's state, as data; what comes of it comes back as events. */
export type TerminalEffect =
  | { type: "list-sessions" }
  /** Reads how many branches sessions have and what they cost; takes the place of what was asked before. */
  | { type: "read-facts"; refs: readonly string[] }
  /** Looks for a text in everything that was said; takes the place of the search before. Empty: ends it. */
  | { type: "search"; query: string }
  | { type: "open"; ref: string; entryId?: string; editorText?: string }
  | { type: "close" }
  /** Looks for a text in the open session; takes the place of the search before. */
  | { type: "find"; query: string }
  | { type: "read-context"; row: number }
  | { type: "read-usage"; row: number }
  | { type: "plan"; instructions?: string }
  | { type: "compare"; a: string; b: string }
  | { type: "act"; act: Act; onBusy?: "fork" | "share" }
  | { type: "abort" }
  /** Answers the question of an extension; undefined: it was closed. */
  | { type: "answer"; question: number; answer: string | undefined }
  | { type: "export"; entryId: string | null; format: "markdown" | "json" }
  /** Hands a text to the terminal's clipboard. */
  | { type: "copy"; text: string; what: string }
  | { type: "suspend" }
  | { type: "redraw" }
  | { type: "quit" };
