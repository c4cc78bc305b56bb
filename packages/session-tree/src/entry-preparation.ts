import type { NewEntry } from "./entry.ts";

/** Changes drafts before they are checked and written. */
export type EntryPreparation = (drafts: readonly NewEntry[]) => Promise<readonly NewEntry[]>;
