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
}

/** The plan for one cut, and whether the next request fits with it. */
export function planAt(
  span: CompactionSpan,
  cut: CutPoint,
  conditions: PlanConditions,
): { plan: CompactionPreparation; fits: boolean } {
  const { settings, estimate } = conditions;
  const historyEnd = cut.isSplitTurn ? cut.turnStartIndex : cut.firstKeptIndex;
  const history = span.items.slice(0, historyEnd);
  const turnPrefix = cut.isSplitTurn ? span.items.slice(historyEnd, cut.firstKeptIndex) : [];
  const kept = span.items.slice(cut.firstKeptIndex);
  const fileOps = recordedFiles(span.previous);
  for (const { entry } of [...history, ...turnPrefix])
    if (branchSummary.is(entry)) recordedFiles(entry, fileOps);
  collectFileOps(messagesOf([...history, ...turnPrefix]), conditions.tools ?? fileTools, fileOps);

  const blocks = blocksOf(span, cut, fileLists(fileOps), conditions);
  const blockTokens = Math.ceil(joinSummary("", blocks, settings.contextWindow).length / 4);
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
    isSplitTurn: cut.isSplitTurn,
    messagesToSummarize: messagesOf(history),
    turnPrefixMessages: messagesOf(turnPrefix),
    keptMessages: messagesOf(kept),
    historyIds: speakers(history),
    turnPrefixIds: speakers(turnPrefix),
    keptIds: speakers(kept),
    ...(span.previousSummary ? { previousSummary: span.previousSummary } : {}),
    blocks,
    fileOps,
    tokensBefore: total(span.visible, estimate),
    tokensAfter: keptTokens + blockTokens + planned,
    summaryTokens: blockTokens + planned,
    maxSummaryTokens: summaryLimit(
      settings,
      room - keptTokens,
      total(messagesOf([...history, ...turnPrefix]), estimate),
    ),
    edits,
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

function blocksOf(
  span: CompactionSpan,
  cut: CutPoint,
  files: SummaryBlocks["files"],
  conditions: PlanConditions,
): SummaryBlocks {
  const latest = latestUserMessage(span.items);
  const goal = conditions.goal ?? span.goal;
  const keptIds = new Set(span.items.slice(cut.firstKeptIndex).map(({ entry }) => entry.id));
  return {
    pinned: conditions.pinned.filter(({ id }) => !keptIds.has(id)),
    ...(goal ? { goal } : {}),
    ...(latest && latest.at < cut.firstKeptIndex ? { latestUserMessage: latest.text } : {}),
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
