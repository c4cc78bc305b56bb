import type { Entry } from "./entry.ts";

/** What happened to a session, told to everyone who observes it, after it is in the log. */
export type SessionChange =
  /** Entries of our own were appended; `leafId` is where that left the leaf. */
  | { type: "appended"; entries: readonly Entry[]; leafId: string | null; previousLeafId: string | null }
  /** Another writer appended: new branches, our leaf stays. `entries` counts the lines; bodies are in the tree. */
  | { type: "foreign"; from: number; to: number };

export type SessionObserver = (change: SessionChange) => void;
