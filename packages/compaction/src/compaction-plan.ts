import type { ContextEdit, ContextMessage } from "@espalier/session-tree";
import type { FileOps, SummaryOmission } from "@espalier/summarizer";
import type { LearntWindows } from "./overflow.ts";
import type { CompactionSettings } from "./settings.ts";
import type { SummaryBlocks, SummaryStyle } from "./summary-text.ts";

/** Why a compaction is made. */
export type CompactionReason = "manual" | "threshold" | "overflow" | "policy";

/** What a compaction would do: data that can be printed, changed by a hook, refused, or carried out. */
export interface CompactionPreparation {
  eligible: true;
  /** The leaf the plan was made for. */
  leafId: string;
  /** The first entry that stays; null when nothing does (the compaction then names itself). */
  firstKeptEntryId: string | null;
  /** The entry with which the cut turn begins; null when no turn is cut. */
  turnStartEntryId: string | null;
  isSplitTurn: boolean;
  /** What is summarised as history, oldest first. */
  messagesToSummarize: ContextMessage[];
  /** The beginning of the cut turn. */
  turnPrefixMessages: ContextMessage[];
  /** What stays, before edits. */
  keptMessages: ContextMessage[];
  /** The entry of each of these messages. */
  historyIds: string[];
  turnPrefixIds: string[];
  keptIds: string[];
  /** The prose of the summary that this one brings up to date. */
  previousSummary?: string;
  /** Earlier summaries that stay letter by letter, in front of the new one. */
  stackedOn?: string;
  /** How the summary is asked for and written. */
  style?: SummaryStyle;
  /** Files whose content is read back into `messagesToSummarize` before a summary is asked for. */
  readBack?: string[];
  /** What will stand in the summary beside the prose. */
  blocks: SummaryBlocks;
  /** Files touched up to the cut, over all earlier summaries. */
  fileOps: FileOps;
  /** Size of the context at the leaf. */
  tokensBefore: number;
  /** Size of what stays, after edits, with a summary of the planned size. */
  tokensAfter: number;
  /** The part of `tokensAfter` that is planned for the summary. */
  summaryTokens: number;
  /** The most tokens the prose may have, so that the next request fits. */
  maxSummaryTokens: number;
  /** What falls out of the kept part (`null`), and how the rest has to be shortened; appended behind the compaction. */
  edits: ContextEdit[];
  settings: CompactionSettings;
}

/** Why there is nothing to compact. */
export interface NothingToCompact {
  eligible: false;
  reason: string;
}

/** What a compaction would do, or why there is none; `eligible` tells them apart. */
export type CompactionPlan = CompactionPreparation | NothingToCompact;

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

/** What a request for a summary did not show of the entries it was made for, by their ids. */
export interface OmittedEntries {
  /** Characters that each tool result, output and argument was cut to; null where they were shown whole. */
  toolResultLimit: number | null;
  /** Entries that were shown in part, and how many of their characters were not. */
  shortened: { entryId: string; characters: number }[];
  /** Entries whose pictures or other media became a word, and how many of them. */
  media: { entryId: string; count: number }[];
  /** Entries that were not shown at all. */
  dropped: string[];
  /** The parts they were summarised in; empty where one request served. */
  chunks: { firstEntryId: string; lastEntryId: string }[];
  /** Characters cut out of the previous summary, the user's wishes and the summaries of parts. */
  summaryCharacters: number;
}

/**
 * What a request left out, told by entries instead of places in the request; undefined where that is nothing.
 *
 * @param ids the entry of each of the request's messages
 * @param dropped entries that did not even come into the request
 */
export function omittedEntries(
  omission: SummaryOmission | undefined,
  ids: readonly string[],
  dropped: readonly string[] = [],
): OmittedEntries | undefined {
  const {
    toolResultLimit = 0,
    shortened = [],
    media = [],
    chunks = [],
    summaryCharacters = 0,
  } = omission ?? {};
  // A hook may have put messages into the request that no entry stands for.
  const idAt = (place: number): string => ids[place] ?? "";
  const told: OmittedEntries = {
    toolResultLimit,
    shortened: shortened.map(({ message, characters }) => ({ entryId: idAt(message), characters })),
    media: media.map(({ message, count }) => ({ entryId: idAt(message), count })),
    dropped: [...dropped, ...(omission?.dropped ?? []).map(idAt)],
    chunks: chunks.map(({ first, last }) => ({ firstEntryId: idAt(first), lastEntryId: idAt(last) })),
    summaryCharacters,
  };
  const lists = [told.shortened, told.media, told.dropped, told.chunks];
  return summaryCharacters > 0 || lists.some(({ length }) => length > 0) ? told : undefined;
}
