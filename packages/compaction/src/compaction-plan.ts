import type { ContextEdit, ContextMessage } from "@espalier/session-tree";
import type { FileOps } from "@espalier/summarizer";
import type { CompactionSettings } from "./compaction-settings.ts";
import type { SummaryBlocks } from "./summary-blocks.ts";
import type { SummaryStyle } from "./summary-style.ts";

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
