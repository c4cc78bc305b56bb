import { EspalierError } from "@espalier/jsonl-stream";
import {
  branchSummary,
  CHARS_PER_TOKEN,
  type ContentBlock,
  type ContextEdit,
  type ContextMessage,
  contentBlocks,
  type Entry,
  estimateTokens,
  formatCount,
  isPicture,
  type ProjectedEntry,
} from "@espalier/session-tree";
import {
  collectFileOps,
  commonLimit,
  cutText,
  type FileOps,
  type FileTool,
  fileLists,
  fileTools,
  recordedFiles,
  upperBoundEstimator,
} from "@espalier/summarizer";
import {
  type CompactionSpan,
  type CutItem,
  type CutPoint,
  currentSystemMessage,
  cutItems,
  type Estimate,
  keepingNothing,
  readSpan,
  smallerCuts,
  waitingItem,
} from "./cut.ts";
import type { Rule } from "./rules.ts";
import { type CompactionSettings, DEFAULT_COMPACTION_SETTINGS, thresholdOf } from "./settings.ts";
import {
  fittingBlocks,
  frameSummary,
  joinSummary,
  plannedSummary,
  type SummaryBlocks,
  type SummaryStyle,
  summaryLimit,
} from "./summary-text.ts";

/** Options of a plan other than path and settings; see `PlanConditions`. */
export type PrepareOptions = Partial<Omit<PlanConditions, "settings">>;

/**
 * Plans a compaction of a path (root first; the end of a path, from the first kept entry on, is enough): the messages
 * to summarize, the messages to keep, and the kept messages to shorten so that the next request fits. Pure: sends no
 * request to a model. Returns a reason instead of a plan when the context is small.
 *
 * @throws EspalierError `irreducible` when no cut makes the next request fit the window
 */
export function prepareCompaction(
  entries: readonly Entry[],
  settings: Partial<CompactionSettings> = {},
  options: PrepareOptions = {},
): CompactionPlan {
  const conditions = conditionsFor(settings, options);
  const span = readSpan(entries);
  const cut = cutItems(span.items, conditions.settings.keepRecentTokens, conditions.estimate);
  const { plan, fits } = planAt(span, cut, conditions);
  if (fits && hasWork(plan)) return plan;
  if (!hasWork(plan) && isSmall(span, conditions)) return nothingToCompact(span, conditions);
  for (const smaller of smallerPlans(span, cut, conditions))
    if (smaller.fits && hasWork(smaller.plan)) return smaller.plan;
  throw irreducible(span, conditions);
}

/** Returns the conditions of a plan, with defaults. */
export const conditionsFor = (
  settings: Partial<CompactionSettings>,
  options: PrepareOptions,
): PlanConditions => ({
  estimate: estimateTokens,
  overheadTokens: 0,
  isOverflow: false,
  pinned: [],
  ...options,
  settings: { ...DEFAULT_COMPACTION_SETTINGS, ...settings },
});

/** Returns whether there is content to summarize, other than system messages and excluded shell runs. */
const hasWork = ({ messagesToSummarize, turnPrefixMessages }: CompactionPreparation): boolean =>
  [...messagesToSummarize, ...turnPrefixMessages].some(
    (message) => message.role !== "system" && estimateTokens(message) > 0,
  );

/** Returns whether the context can be sent unchanged; always false after an overflow. */
function isSmall({ visible }: CompactionSpan, conditions: PlanConditions): boolean {
  const { settings, estimate, overheadTokens, isOverflow } = conditions;
  return !isOverflow && sumSizes(visible, estimate) + overheadTokens <= thresholdOf(settings);
}

function nothingToCompact(span: CompactionSpan, { settings, estimate }: PlanConditions): CompactionPlan {
  const said = messagesOf(span.items);
  const place = span.previous ? " after the summary" : "";
  const [size, kept] = [sumSizes(said, estimate), settings.keepRecentTokens].map(formatCount);
  const reason =
    said.length === 0
      ? `there are no messages${place || " yet"}.`
      : `the messages${place} have ${size} tokens, and the newest ${kept} stay as they are.`;
  return { eligible: false, reason: `Nothing to compact: ${reason}` };
}

function irreducible(span: CompactionSpan, { settings, overheadTokens, estimate }: PlanConditions) {
  const newest = span.items[span.latest?.at ?? -1];
  const breakdown = {
    systemAndTools: overheadTokens + sumSizes(systemOf(span), estimate),
    newestUserMessage: sumSizes(newest?.messages ?? [], estimate),
    contextWindow: settings.contextWindow,
  };
  return new EspalierError(
    "irreducible",
    `System prompt and tools (${breakdown.systemAndTools} tokens) and the newest user message (${breakdown.newestUserMessage}) do not fit into a window of ${breakdown.contextWindow} tokens; use a model with a larger window.`,
    { breakdown },
  );
}

/**
 * Yields plans for a request that would not fit, in this order: ever smaller kept parts below the threshold; then the
 * same within the whole window; then, after an overflow, the same cuts measured by estimate, smallest first. An
 * unanswered user message is only cut off at last, if it is not the cause of the excess.
 */
function* smallerPlans(
  span: CompactionSpan,
  tried: CutPoint,
  conditions: PlanConditions,
): Generator<FittedPlan> {
  const { settings, estimate } = conditions;
  const threshold = thresholdOf(settings);
  const { contextWindow: window } = settings;
  const keepTokens = Math.min(settings.keepRecentTokens, 2 * window);
  const smaller = smallerCuts(span, tried.firstKeptIndex, keepTokens, estimate);
  for (const cut of smaller) yield planAt(span, cut, conditions, threshold);
  const all = [tried, ...smaller];
  for (const cut of all) yield planAt(span, cut, conditions, window);
  if (conditions.isOverflow)
    for (const cut of all.toReversed()) yield planAt(span, cut, { ...conditions, isOverflow: false }, window);
  if (span.waitingAt < 0 || !fitsAlone(span, conditions)) return;
  yield planAt(span, keepingNothing(span), conditions, threshold);
}

/** Returns whether system prompt, tools, the waiting message and a summary fit the window. */
function fitsAlone(span: CompactionSpan, conditions: PlanConditions): boolean {
  const { settings, overheadTokens, estimate } = conditions;
  const waiting = waitingItem(span)?.messages ?? [];
  const system = span.visible.filter(({ role }) => role === "system");
  const alone = sumSizes([...waiting, ...system], measureOf(conditions)) + overheadTokens;
  return alone + plannedSummary(settings, sumSizes(span.visible, estimate)) <= settings.contextWindow;
}

/**
 * Cause of a compaction: a command, a context above the threshold, a request refused as too long, or a policy's own
 * rule.
 */
export type CompactionReason = "manual" | "threshold" | "overflow" | "policy";

/** Plan of a compaction: data that can be printed, changed by a hook, refused, or carried out. */
export interface CompactionPreparation {
  eligible: true;
  /** Leaf for which the plan was made. */
  leafId: string;
  /** The first kept entry; null when no entry is kept (the compaction then names itself). */
  firstKeptEntryId: string | null;
  /** First entry of the turn that is cut; null when no turn is cut. */
  turnStartEntryId: string | null;
  isSplitTurn: boolean;
  /** Messages to summarize as history, oldest first. */
  messagesToSummarize: ContextMessage[];
  /** The beginning of the cut turn. */
  turnPrefixMessages: ContextMessage[];
  /** Messages to keep, before edits. */
  keptMessages: ContextMessage[];
  /** Entry id of each message to summarize. */
  historyIds: string[];
  turnPrefixIds: string[];
  keptIds: string[];
  /** Prose of the summary that the new one updates. */
  previousSummary?: string;
  /** Earlier summaries that are kept word for word before the new one. */
  stackedOn?: string;
  /** Form of the summary and of its request. */
  style?: SummaryStyle;
  /** Paths of the files whose content is read into `messagesToSummarize` before the summary is requested. */
  readBack?: string[];
  /** Blocks of the summary after the prose. */
  blocks: SummaryBlocks;
  /** Files touched by the messages that the summary replaces, including those of all earlier summaries. */
  fileOps: FileOps;
  /** Size of the context at the leaf in tokens, without system prompt and tools of the caller. */
  tokensBefore: number;
  /** Size of the context after edits in tokens, with a summary of the planned size. */
  tokensAfter: number;
  /** Part of `tokensAfter` that is planned for the summary. */
  summaryTokens: number;
  /** Maximum number of tokens of the prose, so that the next request fits. */
  maxSummaryTokens: number;
  /** Edits to append after the compaction: entries to remove from the kept part (`null`), and shortened content. */
  edits: ContextEdit[];
  settings: CompactionSettings;
}

/** Reason why there is nothing to compact. */
export interface NothingToCompact {
  eligible: false;
  reason: string;
}

/** Plan of a compaction, or the reason for its absence; `eligible` distinguishes them. */
export type CompactionPlan = CompactionPreparation | NothingToCompact;

/** Division of a span. The kept part can have gaps: edits remove the items between. */
export interface Selection {
  history: ProjectedEntry[];
  turnPrefix: ProjectedEntry[];
  kept: ProjectedEntry[];
}

/** A plan, and whether the next request fits with it. */
export interface FittedPlan {
  plan: CompactionPreparation;
  fits: boolean;
  /** Tokens by which the summary's blocks were cut, because the kept part leaves too little room for them. */
  lacking: number;
}

/**
 * Makes the plan for one cut.
 *
 * @param most maximum number of tokens of the next request; default: the threshold
 */
export function planAt(
  span: CompactionSpan,
  { firstKeptIndex, turnStartIndex }: CutPoint,
  conditions: PlanConditions,
  most?: number,
): FittedPlan {
  const { items } = span;
  const historyEnd = turnStartIndex < 0 ? firstKeptIndex : turnStartIndex;
  const selection: Selection = {
    history: items.slice(0, historyEnd),
    turnPrefix: items.slice(historyEnd, firstKeptIndex),
    kept: items.slice(firstKeptIndex),
  };
  return planSelection(span, selection, conditions, most);
}

/** Makes the plan for any selection. */
export function planSelection(
  span: CompactionSpan,
  selection: Selection,
  conditions: PlanConditions,
  most: number = thresholdOf(conditions.settings),
): FittedPlan {
  const { settings, estimate, style, stackedOn } = conditions;
  const { history, turnPrefix, kept } = selection;
  const covered = [...history, ...turnPrefix];
  const fileOps = coveredFiles(covered, conditions.tools ?? fileTools, recordedFiles(span.previous));
  // With empty prose, the size of the note after the prose would be missing.
  const summaryOf = (blocks: SummaryBlocks) =>
    summaryMessage(joinSummary(frameSummary("-", { style, stackedOn }), blocks, settings.contextWindow));

  const measure = measureOf(conditions);
  // Size of one token of text that is not written yet.
  const perToken = conditions.isOverflow ? CHARS_PER_TOKEN : 1;
  const system = sumSizes(systemOf(span), measure);
  const previous = stackedOn ? undefined : span.previousSummary;
  const replaced =
    sumSizes(messagesOf(covered), estimate) + (previous ? estimate(summaryMessage(previous)) : 0);
  const planned = plannedSummary(settings, replaced);
  const plannedSize = Math.min(planned * perToken, Math.floor(most / 4));
  const room = most - conditions.overheadTokens - system - plannedSize;
  const words = conversationOf(kept).filter(({ role }) => role !== "toolResult");
  const wholeBlocks = blocksOf(span, kept, fileLists(fileOps), conditions);
  const blocks = fittingBlocks(
    wholeBlocks,
    settings.contextWindow,
    Math.min(room / 2, room - sumSizes(words, measure)),
    (tried) => measure(summaryOf(tried)),
  );
  const keptRoom = room - measure(summaryOf(blocks));
  const edits = shrinkEdits(kept, sumSizes(conversationOf(kept), measure) - keptRoom, measure);
  const remaining = withEdits(kept, edits);
  const left = keptRoom - sumSizes(remaining, measure);
  const summaryTokens = estimate(summaryOf(blocks)) + planned;
  const roomForProse = Math.floor((left + plannedSize) / perToken);
  const plan: CompactionPreparation = {
    eligible: true,
    leafId: span.leafId,
    firstKeptEntryId: kept[0]?.entry.id ?? null,
    turnStartEntryId: turnPrefix[0]?.entry.id ?? null,
    isSplitTurn: turnPrefix.length > 0,
    messagesToSummarize: messagesOf(history),
    turnPrefixMessages: messagesOf(turnPrefix),
    keptMessages: messagesOf(kept),
    historyIds: messageEntryIds(history),
    turnPrefixIds: messageEntryIds(turnPrefix),
    keptIds: messageEntryIds(kept),
    ...(stackedOn ? { stackedOn } : previous ? { previousSummary: previous } : {}),
    ...(style ? { style } : {}),
    blocks,
    fileOps,
    tokensBefore: sumSizes(span.visible, estimate),
    tokensAfter: sumSizes([...remaining, ...systemOf(span)], estimate) + summaryTokens,
    summaryTokens,
    maxSummaryTokens: summaryLimit(settings, roomForProse, replaced, style?.maxOutputTokens),
    edits: [...removalEdits(span, selection), ...edits],
    settings,
  };
  const lacking = blocks === wholeBlocks ? 0 : estimate(summaryOf(wholeBlocks)) - estimate(summaryOf(blocks));
  return { plan, fits: left >= 0, lacking };
}

/** Adds the files of covered entries to `fileOps`: those of their calls, and those that branch summaries record. */
export function coveredFiles(
  covered: readonly ProjectedEntry[],
  tools: readonly FileTool[],
  fileOps: FileOps,
): FileOps {
  for (const { entry } of covered) if (branchSummary.is(entry)) recordedFiles(entry, fileOps);
  return collectFileOps(messagesOf(covered), tools, fileOps);
}

function removalEdits({ items }: CompactionSpan, { kept }: Selection): ContextEdit[] {
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
  // The user's only message is included once: in its place in the context, or else as the goal.
  const isSole = latestText !== undefined && goal?.trim() === latestText.trim();
  return {
    pinned: conditions.pinned.filter(({ id }) => !keptIds.has(id)),
    ...(conditions.rules?.length ? { rules: conditions.rules } : {}),
    ...(goal && !(isSole && isLatestKept) ? { goal } : {}),
    ...(latestText && !isLatestKept && !isSole ? { latestUserMessage: latestText } : {}),
    files,
  };
}

function sumSizes(messages: readonly ContextMessage[], estimate: Estimate): number {
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

const systemOf = ({ visible }: CompactionSpan): ContextMessage[] => {
  const system = currentSystemMessage(visible);
  return system ? [system] : [];
};

const messagesOf = (items: readonly ProjectedEntry[]): ContextMessage[] =>
  items.flatMap(({ messages }) => messages);

/** Messages after the compaction. The compaction itself has the system message. */
const conversationOf = (items: readonly ProjectedEntry[]): ContextMessage[] =>
  messagesOf(items).filter(({ role }) => role !== "system");

const messageEntryIds = (items: readonly ProjectedEntry[]): string[] =>
  items.flatMap(({ entry, messages }) => messages.map(() => entry.id));

/** Results with fewer tokens are not shortened: their head and tail would be too short to be useful. */
const SMALLEST_RESULT = 100;

/**
 * Returns edits that reduce the kept messages by at least `excess` tokens: the largest tool results are cut to head and
 * tail, all to about the same size, and images are replaced by a word. The log keeps the originals. Empty when nothing
 * has to shrink. When the target cannot be reached, the edits reduce as much as possible.
 */
export function shrinkEdits(kept: readonly CutItem[], excess: number, estimate: Estimate): ContextEdit[] {
  if (excess <= 0) return [];
  const candidates = kept.flatMap(({ entry, messages }) => {
    const [message] = messages;
    return messages.length === 1 && message && canShrink(message)
      ? [{ id: entry.id, message, tokens: estimate(message) }]
      : [];
  });
  const sizes = candidates.map(({ tokens }) => tokens);
  let room = sizes.reduce((sum, size) => sum + size, 0) - excess;
  let limit = Math.max(SMALLEST_RESULT, commonLimit(sizes, room));
  // A cut adds a mark, and an estimator need not be linear: repeat until the size fits or nothing more can be removed.
  for (;;) {
    const edits = candidates
      .filter(({ tokens }) => tokens > limit)
      .map(({ id, message, tokens }) => {
        const content = shrunk(message, limit, estimate);
        return { edit: contentEdit(id, content), freed: tokens - estimate(withContent(message, content)) };
      });
    const freed = edits.reduce((sum, { freed }) => sum + freed, 0);
    if (freed >= excess || limit <= SMALLEST_RESULT)
      return edits.flatMap(({ edit, freed }) => (freed > 0 ? [edit] : []));
    room -= excess - freed;
    limit = Math.max(SMALLEST_RESULT, Math.floor(Math.min(limit * 0.95, commonLimit(sizes, room))));
  }
}

/** Returns the edit that replaces the content of an entry. */
export const contentEdit = (targetId: string, content: ContentBlock[]): ContextEdit => ({
  targetId,
  replacement: { content } as NonNullable<ContextEdit["replacement"]>,
});

/** Returns whether a message can be shortened; only tool results and images can. */
function canShrink(message: ContextMessage): boolean {
  if (message.role === "toolResult") return true;
  return (message.role === "user" || message.role === "custom") && contentBlocks(message).some(isPicture);
}

function shrunk(message: ContextMessage, limit: number, estimate: Estimate): ContentBlock[] {
  const words = contentBlocks(message).map((block) => withoutPicture(block));
  if (message.role !== "toolResult") return words;
  // A share of the characters is about the same share of the size for every estimator.
  const share = limit / Math.max(1, estimate(withContent(message, words)));
  if (share >= 1) return words;
  const shortened = (text: string) => cutText(text, Math.floor(text.length * share), "head-tail");
  return words.map((block) => (block.type === "text" ? { ...block, text: shortened(block.text) } : block));
}

const withContent = (message: ContextMessage, content: ContentBlock[]) =>
  ({ ...message, content }) as ContextMessage;

/** Returns a block; for an image, a text in its place, with the reason if there is one. */
export const withoutPicture = (block: ContentBlock, why = ""): ContentBlock =>
  isPicture(block) ? { type: "text", text: why ? `[image left out: ${why}]` : "[image left out]" } : block;

function withEdits(items: readonly ProjectedEntry[], edits: readonly ContextEdit[]): ContextMessage[] {
  const contents = new Map(edits.map(({ targetId, replacement }) => [targetId, replacement]));
  return items.flatMap((item) => {
    const replacement = contents.get(item.entry.id);
    const staying = conversationOf([item]);
    return replacement
      ? staying.map((message) => ({ ...message, content: replacement.content }) as ContextMessage)
      : staying;
  });
}

/** Inputs of a plan besides the path. */
export interface PlanConditions {
  settings: CompactionSettings;
  /** Returns the size of one message in tokens, by the policy's estimator. */
  estimate: Estimate;
  /** File arguments declared by tools. Default: those of common agents. */
  tools?: readonly FileTool[];
  /** Tokens of system prompt and tools, which are sent in addition to the context. */
  overheadTokens: number;
  /** True after a provider refused the request as too long: the kept part must then fit by an upper bound. */
  isOverflow: boolean;
  /** Entries that the user pinned. Those that are kept unchanged are not repeated in the summary. */
  pinned: readonly { id: string; text: string }[];
  /** Current rules of the user, oldest first. Default: none. */
  rules?: readonly Rule[];
  /** The user's first message, when the given path does not begin at the root. */
  goal?: string;
  /** The user's newest message, when the given path does not begin at the root and has no user message. */
  latestUserMessage?: string;
  /** Form of the summary and of its request. */
  style?: SummaryStyle;
  /** Earlier summaries that are kept before the new one. */
  stackedOn?: string;
}

/**
 * Returns the function that measures content that has to fit: an upper bound after an overflow, when estimates have
 * proved too low; else the estimate.
 */
const measureOf = ({ isOverflow, estimate }: PlanConditions): Estimate =>
  isOverflow ? upperBoundEstimator.estimate : estimate;
