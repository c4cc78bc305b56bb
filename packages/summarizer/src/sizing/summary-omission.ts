import type { ContextMessage } from "@espalier/session-tree";
import type { RenderedMessage } from "../rendered-message.ts";

/**
 * What a request for a summary did not show of the messages it was made for. Numbers of messages are indexes into the
 * request's `messages`. Thinking is never shown and not listed.
 */
export interface SummaryOmission {
  /** Characters that each tool result, output and argument was cut to; null where they were shown whole. */
  toolResultLimit: number | null;
  /** Messages that are shown in part, and how many of their characters are not. */
  shortened: { message: number; characters: number }[];
  /** Messages whose pictures or other media became a word, and how many of them. */
  media: { message: number; count: number }[];
  /** Messages that are not shown at all because nothing smaller fitted. */
  dropped: number[];
  /** The parts the messages were summarised in, as ranges; empty where one request served. */
  chunks: { first: number; last: number }[];
  /** Characters cut out of texts that are not messages: the previous summary, wishes of the user, summaries of parts. */
  summaryCharacters: number;
}

/** Nothing left out. */
const noOmission = (toolResultLimit: number): SummaryOmission => ({
  // It is recorded in a log, and JSON has no Infinity.
  toolResultLimit: Number.isFinite(toolResultLimit) ? toolResultLimit : null,
  shortened: [],
  media: [],
  dropped: [],
  chunks: [],
  summaryCharacters: 0,
});

/** A message with its place in the request and how it is shown. */
export interface PlacedMessage extends RenderedMessage {
  index: number;
  message: ContextMessage;
}

/** What the rendering of the messages left out; `dropped` ones are listed there alone. */
export function describeOmission(
  placed: readonly PlacedMessage[],
  dropped: ReadonlySet<number>,
  toolResultLimit: number,
): SummaryOmission {
  const omission = noOmission(toolResultLimit);
  for (const { index, leftOut, media } of placed) {
    if (dropped.has(index)) omission.dropped.push(index);
    else {
      if (leftOut > 0) omission.shortened.push({ message: index, characters: leftOut });
      if (media > 0) omission.media.push({ message: index, count: media });
    }
  }
  return omission;
}
