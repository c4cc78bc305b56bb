import { type CompactionSettings, thresholdOf } from "./compaction-settings.ts";

/** The size that a summary's prose is planned with, in tokens: what the extractive summarizer writes at the most. */
export const PLANNED_SUMMARY_TOKENS = 2_000;

/** The share of the reserve that a summary's prose may take (as in Pi: the rest is for the answer itself). */
const SHARE_OF_RESERVE = 0.8;

/** No summary is asked to be shorter than this: below it there is no room for its headings. */
const SHORTEST_SUMMARY = 256;

/** What is summarised has to become smaller by this, or the compaction is not worth its loss. */
const LARGEST_RATIO = 0.8;

/** The tokens that a plan reckons with for the prose: less in a small window, and less than what it replaces. */
export function plannedSummary(settings: CompactionSettings, replaced: number): number {
  const small = Math.max(1, Math.floor(thresholdOf(settings) / 4));
  return Math.min(PLANNED_SUMMARY_TOKENS, small, worthwhile(replaced));
}

/**
 * The most tokens the prose may have: its share of the reserve, what room there is, and less than what it replaces
 * (messages and the previous summary); or what a policy wants, if there is room.
 */
export function summaryLimit(
  settings: CompactionSettings,
  room: number,
  replaced: number,
  wanted?: number,
): number {
  if (wanted) return Math.max(SHORTEST_SUMMARY, Math.min(wanted, room));
  const share = Math.max(PLANNED_SUMMARY_TOKENS, Math.floor(settings.reserveTokens * SHARE_OF_RESERVE));
  return Math.max(SHORTEST_SUMMARY, Math.min(share, room, worthwhile(replaced)));
}

const worthwhile = (replaced: number): number =>
  Math.max(SHORTEST_SUMMARY, Math.floor(replaced * LARGEST_RATIO));
