import type { SummaryOmission } from "@espalier/summarizer";

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
