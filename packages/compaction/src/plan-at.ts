import {
  branchSummary,
  type ContextEdit,
  type ContextMessage,
  type ProjectedEntry,
} from "@espalier/session-tree";
import {
  collectFileOps,
  type FileTool,
  fileLists,
  fileTools,
  recordedFiles,
  upperBoundEstimator,
} from "@espalier/summarizer";
import type { CompactionPreparation } from "./compaction-plan.ts";
import { type CompactionSettings, thresholdOf } from "./compaction-settings.ts";
import { type CompactionSpan, latestUserMessage } from "./compaction-span.ts";
import type { CutPoint } from "./cut-point.ts";
import { shrinkEdits } from "./shrink-edits.ts";
import { joinSummary, type SummaryBlocks } from "./summary-blocks.ts";
import { frameSummary, type SummaryStyle } from "./summary-style.ts";

/** The size that a summary's prose is planned with, in tokens: what the extractive summarizer writes at the most. */
export const PLANNED_SUMMARY_TOKENS = 2_000;

/** The share of the reserve that a summary's prose may take (as in Pi: the rest is for the answer itself). */
const SUMMARY_SHARE = 0.8;

/** What a plan depends on besides the path. */
export interface PlanConditions {
  settings: CompactionSettings;
  /** Size of one message; the policy's estimator. */
  estimate: (message: ContextMessage) => number;
  /** What tools declare about files. */
  tools?: readonly FileTool[];
  /** Tokens of system prompt and tools, which are sent besides the context. */
  overheadTokens: number;
  /** True after a provider said that the request was too long: what stays must then fit by an upper bound. */
  isOverflow: boolean;
  /** Entries that the user pinned; those that stay as they are need not be repeated. */
  pinned: readonly { id: string; text: string }[];
  /** The user's first message, where only the end of the path is at hand. */
  goal?: string;
  /** How the summary is asked for and written. */
  style?: SummaryStyle;
  /** Earlier summaries that stay in front of the new one. */
  stackedOn?: string;
}

/** What a plan does with each item of a span. What is kept need not be a tail: what lies between falls out by edits. */
export interface Selection {
  history: ProjectedEntry[];
  turnPrefix: ProjectedEntry[];
  kept: ProjectedEntry[];
  isSplitTurn: boolean;
}

/** The plan for one cut, and whether the next request fits with it. */
export function planAt(
  span: CompactionSpan,
  cut: CutPoint,
  conditions: PlanConditions,
): { plan: CompactionPreparation; fits: boolean } {
  const historyEnd = cut.isSplitTurn ? cut.turnStartIndex : cut.firstKeptIndex;
  const selection: Selection = {
    history: span.items.slice(0, historyEnd),
    turnPrefix: cut.isSplitTurn ? span.items.slice(historyEnd, cut.firstKeptIndex) : [],
    kept: span.items.slice(cut.firstKeptIndex),
    isSplitTurn: cut.isSplitTurn,
  };
  return planSelection(span, selection, conditions);
}

/** The plan for any selection, and whether the next request fits with it. */
export function planSelection(
  span: CompactionSpan,
  selection: Selection,
  conditions: PlanConditions,
): { plan: CompactionPreparation; fits: boolean } {
  const { settings, estimate, style, stackedOn } = conditions;
  const { history, turnPrefix, kept } = selection;
  const fileOps = recordedFiles(span.previous);
  for (const { entry } of [...history, ...turnPrefix])
    if (branchSummary.is(entry)) recordedFiles(entry, fileOps);
  collectFileOps(messagesOf([...history, ...turnPrefix]), conditions.tools ?? fileTools, fileOps);

  const blocks = blocksOf(span, kept, fileLists(fileOps), conditions);
  const framed = joinSummary(frameSummary("", { style, stackedOn }), blocks, settings.contextWindow);
  const blockTokens = estimate({ role: "compactionSummary", summary: framed, tokensBefore: 0, timestamp: 0 });
  const planned = plannedProse(settings);
  const room = thresholdOf(settings) - conditions.overheadTokens - blockTokens;
  // After an overflow nobody's estimate is to be trusted: what stays is measured so that it cannot be more.
  const measure = conditions.isOverflow ? upperBoundEstimator.estimate : estimate;
  const edits = shrinkEdits(kept, total(messagesOf(kept), measure) - (room - planned), measure);
  const remaining = withEdits(kept, edits);
  const keptTokens = total(remaining, estimate);
  const plan: CompactionPreparation = {
    eligible: true,
    leafId: span.leafId,
    firstKeptEntryId: kept[0]?.entry.id ?? null,
    turnStartEntryId: turnPrefix[0]?.entry.id ?? null,
    isSplitTurn: selection.isSplitTurn,
    messagesToSummarize: messagesOf(history),
    turnPrefixMessages: messagesOf(turnPrefix),
    keptMessages: messagesOf(kept),
    historyIds: speakers(history),
    turnPrefixIds: speakers(turnPrefix),
    keptIds: speakers(kept),
    ...(stackedOn ? { stackedOn } : span.previousSummary ? { previousSummary: span.previousSummary } : {}),
    ...(style ? { style } : {}),
    blocks,
    fileOps,
    tokensBefore: total(span.visible, estimate),
    tokensAfter: keptTokens + blockTokens + planned,
    summaryTokens: blockTokens + planned,
    maxSummaryTokens: style?.maxOutputTokens
      ? Math.max(SHORTEST_SUMMARY, Math.min(style.maxOutputTokens, room - keptTokens))
      : summaryLimit(settings, room - keptTokens, total(messagesOf([...history, ...turnPrefix]), estimate)),
    edits: [...fallingOut(span, selection), ...edits],
    settings,
  };
  return { plan, fits: total(remaining, measure) + planned <= room };
}

/** No summary is asked to be shorter than this: below it there is no room for its headings. */
const SHORTEST_SUMMARY = 256;

/** What is summarised has to become smaller by this, or the compaction is not worth its loss. */
const LARGEST_RATIO = 0.8;

/** The most tokens a summary may have: its share of the reserve, what room there is, and less than what it replaces. */
function summaryLimit(settings: CompactionSettings, room: number, replaced: number): number {
  const share = Math.floor(settings.reserveTokens * SUMMARY_SHARE);
  return Math.max(SHORTEST_SUMMARY, Math.min(share, room, Math.floor(replaced * LARGEST_RATIO)));
}

/** In a small window a summary is planned smaller too. */
function plannedProse(settings: CompactionSettings): number {
  return Math.min(PLANNED_SUMMARY_TOKENS, Math.max(1, Math.floor(thresholdOf(settings) / 4)));
}

/** Edits for what stands behind the first kept item and is not kept. */
function fallingOut({ items }: CompactionSpan, { kept }: Selection): ContextEdit[] {
  const first = kept[0];
  if (!first) return [];
  const stays = new Set(kept);
  return items
    .slice(items.indexOf(first))
    .filter((item) => !stays.has(item) && item.messages.length > 0)
    .map(({ entry }) => ({ targetId: entry.id, replacement: null }));
}

function blocksOf(
  span: CompactionSpan,
  kept: readonly ProjectedEntry[],
  files: SummaryBlocks["files"],
  conditions: PlanConditions,
): SummaryBlocks {
  const latest = latestUserMessage(span.items);
  const goal = conditions.goal ?? span.goal;
  const keptIds = new Set(kept.map(({ entry }) => entry.id));
  return {
    pinned: conditions.pinned.filter(({ id }) => !keptIds.has(id)),
    ...(goal ? { goal } : {}),
    ...(latest && !keptIds.has(span.items[latest.at]!.entry.id) ? { latestUserMessage: latest.text } : {}),
    files,
  };
}

/** Sum of sizes. */
export function total(
  messages: readonly ContextMessage[],
  estimate: (message: ContextMessage) => number,
): number {
  let sum = 0;
  for (const message of messages) sum += estimate(message);
  return sum;
}

const messagesOf = (items: readonly ProjectedEntry[]): ContextMessage[] =>
  items.flatMap(({ messages }) => messages);

/** One id a message. */
const speakers = (items: readonly ProjectedEntry[]): string[] =>
  items.flatMap(({ entry, messages }) => messages.map(() => entry.id));

/** What items say once these edits are appended. */
function withEdits(items: readonly ProjectedEntry[], edits: readonly ContextEdit[]): ContextMessage[] {
  const contents = new Map(edits.map(({ targetId, replacement }) => [targetId, replacement]));
  return items.flatMap(({ entry, messages }) => {
    const replacement = contents.get(entry.id);
    return replacement
      ? messages.map((message) => ({ ...message, content: replacement.content }) as ContextMessage)
      : messages;
  });
}
