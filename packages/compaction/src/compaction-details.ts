import type { CompactionReason } from "./compaction-plan.ts";
import type { LearntWindows } from "./learnt-windows.ts";
import type { OmittedEntries } from "./omitted-entries.ts";

/** A part of a path, by its ends. Null where it is empty. */
export interface EntryRange {
  firstEntryId: string | null;
  lastEntryId: string | null;
  messages: number;
}

/** What a compaction records of itself, in `details`: enough to show what it did without anything else. */
export interface CompactionDetails {
  reason: CompactionReason;
  /** The policy's name. */
  policy: string;
  /** Who wrote the summary: a summarizer, `fallback` chains say which one answered; or `extension`. */
  source: string;
  model: { provider: string; modelId: string } | null;
  /** What the summary replaces. */
  covered: EntryRange;
  /** What stayed. */
  kept: EntryRange;
  tokensBefore: number;
  tokensAfter: number;
  isSplitTurn: boolean;
  durationMs: number;
  readFiles: string[];
  modifiedFiles: string[];
  /** What requests for the summary had to shorten or drop. */
  omitted: { history?: OmittedEntries; turnPrefix?: OmittedEntries };
  /** Headings that the summary was asked for and does not have; absent where none is missing. */
  missingSections?: string[];
  /** Automatic compactions in a row, this one included, without an answer of the model between them; 0 for a manual one. */
  automaticInARow?: number;
  /** What providers said of their models' windows so far; absent where none did. */
  learntWindows?: LearntWindows;
  /** Entries pinned on the path. */
  pinned?: string[];
  /** The settings in force, so that a reader from the file's end need not look further back. */
  settings: { provider: string | null; modelId: string | null; thinkingLevel: string };
}

/** The ends of a list of entry ids, one id a message. */
export function rangeOf(ids: readonly string[]): EntryRange {
  return { firstEntryId: ids[0] ?? null, lastEntryId: ids.at(-1) ?? null, messages: ids.length };
}
