import {
  branchSummary,
  type ContextEdit,
  type ContextMessage,
  type ProjectedEntry,
} from "@espalier/session-tree";
import {
  collectFileOps,
  type FileOps,
  type FileTool,
  fileLists,
  fileTools,
  recordedFiles,
} from "@espalier/summarizer";
import type { CompactionPreparation } from "./compaction-plan.ts";
import { thresholdOf } from "./compaction-settings.ts";
import type { CompactionSpan } from "./compaction-span.ts";
import type { CutPoint } from "./cut-point.ts";
import { fittingBlocks } from "./fitting-blocks.ts";
import { type PlanConditions, sizesUnder } from "./plan-conditions.ts";
import { shrinkEdits } from "./shrink-edits.ts";
import { joinSummary, type SummaryBlocks } from "./summary-blocks.ts";
import { plannedSummary, summaryLimit } from "./summary-limit.ts";
import { frameSummary } from "./summary-style.ts";
import { systemInForce } from "./system-in-force.ts";

/** What a plan does with each item of a span. What is kept need not be a tail: what lies between falls out by edits. */
export interface Selection {
  history: ProjectedEntry[];
  turnPrefix: ProjectedEntry[];
  kept: ProjectedEntry[];
  isSplitTurn: boolean;
}

/** A plan, and whether the next request fits with it. */
export interface FittedPlan {
  plan: CompactionPreparation;
  fits: boolean;
}

/**
 * The plan for one cut.
 *
 * @param most tokens that the next request may have; by default the threshold
 */
export function planAt(
  span: CompactionSpan,
  cut: CutPoint,
  conditions: PlanConditions,
  most?: number,
): FittedPlan {
  const historyEnd = cut.isSplitTurn ? cut.turnStartIndex : cut.firstKeptIndex;
  const selection: Selection = {
    history: span.items.slice(0, historyEnd),
    turnPrefix: cut.isSplitTurn ? span.items.slice(historyEnd, cut.firstKeptIndex) : [],
    kept: span.items.slice(cut.firstKeptIndex),
    isSplitTurn: cut.isSplitTurn,
  };
  return planSelection(span, selection, conditions, most);
}

/** The plan for any selection. */
export function planSelection(
  span: CompactionSpan,
  selection: Selection,
  conditions: PlanConditions,
  most: number = thresholdOf(conditions.settings),
): FittedPlan {
  const { settings, estimate, style, stackedOn } = conditions;
  const { history, turnPrefix, kept } = selection;
  const covered = [...history, ...turnPrefix];
  const fileOps = filesOf(span, covered, conditions.tools);
  const summaryOf = (blocks: SummaryBlocks, prose = "") =>
    summaryMessage(joinSummary(frameSummary(prose, { style, stackedOn }), blocks, settings.contextWindow));

  const sizes = sizesUnder(conditions);
  const system = total(systemOf(span), sizes.message);
  const previous = stackedOn ? undefined : span.previousSummary;
  const replaced = total(messagesOf(covered), estimate) + (previous ? estimate(summaryMessage(previous)) : 0);
  const planned = plannedSummary(settings, replaced);
  const plannedSize = Math.min(sizes.planned(planned), Math.floor(most / 4));
  const room = most - conditions.overheadTokens - system - plannedSize;
  const words = stayingOf(kept).filter(({ role }) => role !== "toolResult");
  const blocks = fittingBlocks(
    blocksOf(span, kept, fileLists(fileOps), conditions),
    settings.contextWindow,
    Math.min(room / 2, room - total(words, sizes.message)),
    (tried) => sizes.message(summaryOf(tried)),
  );
  const keptRoom = room - sizes.message(summaryOf(blocks));
  const edits = shrinkEdits(kept, total(stayingOf(kept), sizes.message) - keptRoom, sizes.message);
  const remaining = withEdits(kept, edits);
  const left = keptRoom - total(remaining, sizes.message);
  const summaryTokens = estimate(summaryOf(blocks)) + planned;
  const roomForProse = Math.floor((left + plannedSize) / sizes.planned(1));
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
    ...(stackedOn ? { stackedOn } : previous ? { previousSummary: previous } : {}),
    ...(style ? { style } : {}),
    blocks,
    fileOps,
    tokensBefore: total(span.visible, estimate),
    tokensAfter: total([...remaining, ...systemOf(span)], estimate) + summaryTokens,
    summaryTokens,
    maxSummaryTokens: summaryLimit(settings, roomForProse, replaced, style?.maxOutputTokens),
    edits: [...fallingOut(span, selection), ...edits],
    settings,
  };
  return { plan, fits: left >= 0 };
}

function filesOf(
  { previous }: CompactionSpan,
  covered: readonly ProjectedEntry[],
  tools: readonly FileTool[] = fileTools,
): FileOps {
  const fileOps = recordedFiles(previous);
  for (const { entry } of covered) if (branchSummary.is(entry)) recordedFiles(entry, fileOps);
  return collectFileOps(messagesOf(covered), tools, fileOps);
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
  { items, latest, goal: told }: CompactionSpan,
  kept: readonly ProjectedEntry[],
  files: SummaryBlocks["files"],
  conditions: PlanConditions,
): SummaryBlocks {
  const goal = conditions.goal ?? told;
  const keptIds = new Set(kept.map(({ entry }) => entry.id));
  const latestItem = items[latest?.at ?? -1];
  const latestText = latestItem ? latest?.text : (conditions.latestUserMessage ?? latest?.text);
  const isLatestKept = latestItem !== undefined && keptIds.has(latestItem.entry.id);
  // Where the user said one thing only it stands once: in the context as it was, else as the goal.
  const isSole = latestText !== undefined && goal?.trim() === latestText.trim();
  return {
    pinned: conditions.pinned.filter(({ id }) => !keptIds.has(id)),
    ...(goal && !(isSole && isLatestKept) ? { goal } : {}),
    ...(latestText && !isLatestKept && !isSole ? { latestUserMessage: latestText } : {}),
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

const summaryMessage = (summary: string): ContextMessage => ({
  role: "compactionSummary",
  summary,
  tokensBefore: 0,
  timestamp: 0,
});

/** The system's words that the compaction will carry. */
const systemOf = ({ visible }: CompactionSpan): ContextMessage[] => {
  const system = systemInForce(visible);
  return system ? [system] : [];
};

export const messagesOf = (items: readonly ProjectedEntry[]): ContextMessage[] =>
  items.flatMap(({ messages }) => messages);

/** What will still be said behind the compaction, which carries the system's words itself. */
const stayingOf = (items: readonly ProjectedEntry[]): ContextMessage[] =>
  messagesOf(items).filter(({ role }) => role !== "system");

/** One id a message. */
const speakers = (items: readonly ProjectedEntry[]): string[] =>
  items.flatMap(({ entry, messages }) => messages.map(() => entry.id));

/** What items say once these edits are appended. */
function withEdits(items: readonly ProjectedEntry[], edits: readonly ContextEdit[]): ContextMessage[] {
  const contents = new Map(edits.map(({ targetId, replacement }) => [targetId, replacement]));
  return items.flatMap((item) => {
    const replacement = contents.get(item.entry.id);
    const staying = stayingOf([item]);
    return replacement
      ? staying.map((message) => ({ ...message, content: replacement.content }) as ContextMessage)
      : staying;
  });
}
