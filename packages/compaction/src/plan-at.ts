import {
  blockBytes,
  branchSummary,
  CHARS_PER_TOKEN,
  type ContentBlock,
  type ContextEdit,
  type ContextMessage,
  contentBlocks,
  type ProjectedEntry,
} from "@espalier/session-tree";
import {
  collectFileOps,
  cutText,
  type FileOps,
  type FileTool,
  fileLists,
  fileTools,
  recordedFiles,
  upperBoundEstimator,
} from "@espalier/summarizer";
import type { CompactionPreparation } from "./compaction-plan.ts";
import { type CompactionSpan, type CutItem, type CutPoint, systemInForce } from "./cut.ts";
import { type CompactionSettings, commonLimit, thresholdOf } from "./settings.ts";
import {
  blockLimit,
  frameSummary,
  joinSummary,
  plannedSummary,
  type SummaryBlocks,
  type SummaryStyle,
  summaryLimit,
} from "./summary-text.ts";

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

/** What a plan depends on besides the path. */
export interface PlanConditions {
  settings: CompactionSettings;
  /** Size of one message; the policy's estimator. */
  estimate: (message: ContextMessage) => number;
  /** What tools declare about files. Default: those of common agents. */
  tools?: readonly FileTool[];
  /** Tokens of system prompt and tools, which are sent besides the context. */
  overheadTokens: number;
  /** True after a provider said that the request was too long: what stays must then fit by an upper bound. */
  isOverflow: boolean;
  /** Entries that the user pinned; those that stay as they are need not be repeated. */
  pinned: readonly { id: string; text: string }[];
  /** The user's first message, where only the end of the path is at hand. */
  goal?: string;
  /** The user's newest message, where only the end of the path is at hand and none is in it. */
  latestUserMessage?: string;
  /** How the summary is asked for and written. */
  style?: SummaryStyle;
  /** Earlier summaries that stay in front of the new one. */
  stackedOn?: string;
}

/** How sizes are judged where something has to fit. */
interface Sizes {
  message(message: ContextMessage): number;
  /** The size of a text that is still to be written, of so many tokens. */
  planned(tokens: number): number;
}

/** After an overflow nobody's estimate is to be trusted: what stays is measured so that it cannot be more. */
export function sizesUnder({ isOverflow, estimate }: Pick<PlanConditions, "isOverflow" | "estimate">): Sizes {
  return isOverflow
    ? { message: upperBoundEstimator.estimate, planned: (tokens) => tokens * CHARS_PER_TOKEN }
    : { message: estimate, planned: (tokens) => tokens };
}

/** Below this, in tokens, a block says nothing but that something was left out. */
const SMALLEST_LIMIT = 16;

/**
 * The blocks, with a limit for each where all together would not fit.
 *
 * @param sizeOf the size of all together, in the unit of `room`
 */
function fittingBlocks(
  blocks: SummaryBlocks,
  contextWindow: number,
  room: number,
  sizeOf: (blocks: SummaryBlocks) => number,
): SummaryBlocks {
  const most = Math.max(0, room);
  let fitting = blocks;
  for (let limitTokens = blockLimit(contextWindow); limitTokens > SMALLEST_LIMIT; ) {
    const size = sizeOf(fitting);
    if (size <= most) break;
    limitTokens = Math.max(SMALLEST_LIMIT, Math.floor(limitTokens * Math.min(0.8, most / size)));
    fitting = { ...blocks, limitTokens };
  }
  return fitting;
}

/** Below this many tokens a result is not shortened further: head and tail would say nothing any more. */
const SMALLEST_RESULT = 100;

/**
 * Edits that bring what is kept down by at least `excess` tokens, if that can be done: the largest tool results are cut
 * to head and tail, all to about the same size, and pictures are replaced by a word. The log keeps the originals.
 * Empty when nothing has to shrink; what can be done, when it is not enough.
 */
export function shrinkEdits(
  kept: readonly CutItem[],
  excess: number,
  estimate: (message: ContextMessage) => number,
): ContextEdit[] {
  if (excess <= 0) return [];
  const candidates = kept.flatMap(({ entry, messages }) => {
    const [message] = messages;
    return messages.length === 1 && message && canShrink(message)
      ? [{ id: entry.id, message, tokens: estimate(message) }]
      : [];
  });
  const sizes = candidates.map(({ tokens }) => tokens);
  let wanted = excess;
  let limit = Math.max(SMALLEST_RESULT, commonLimit(sizes, wanted));
  // A cut leaves its mark, and an estimator need not be linear: look again until it fits or nothing more can be had.
  for (;;) {
    const edits = candidates
      .filter(({ tokens }) => tokens > limit)
      .map(({ id, message }) => ({ targetId: id, ...shrunk(message, limit, estimate) }));
    const freed = edits.reduce((sum, { freed }) => sum + freed, 0);
    if (freed >= excess || limit <= SMALLEST_RESULT) {
      return edits
        .filter((edit) => edit.freed > 0)
        .map(({ targetId, replacement }) => ({ targetId, replacement }));
    }
    wanted += excess - freed;
    limit = Math.max(SMALLEST_RESULT, Math.floor(Math.min(limit * 0.95, commonLimit(sizes, wanted))));
  }
}

/** Results and pictures shrink; what people and models said does not. */
function canShrink(message: ContextMessage): boolean {
  if (message.role === "toolResult") return true;
  return (
    (message.role === "user" || message.role === "custom") &&
    contentBlocks(message).some(({ type }) => type === "image")
  );
}

function shrunk(message: ContextMessage, limit: number, estimate: (message: ContextMessage) => number) {
  const words = withContent(message, contentBlocks(message as { content?: unknown }).map(withoutImage));
  // A share of the characters, whatever the estimator counts: it is about as large a share of the size.
  const share = message.role === "toolResult" ? Math.min(1, limit / Math.max(1, estimate(words))) : 1;
  const content = contentBlocks(words as { content?: unknown }).map((block) => shortened(block, share));
  return {
    replacement: { content } as NonNullable<ContextEdit["replacement"]>,
    freed: estimate(message) - estimate(withContent(message, content)),
  };
}

const withContent = (message: ContextMessage, content: ContentBlock[]) =>
  ({ ...message, content }) as ContextMessage;

const shortened = (block: ContentBlock, share: number): ContentBlock =>
  block.type === "text" && share < 1
    ? { ...block, text: cutText(block.text, Math.floor(block.text.length * share), "head-tail") }
    : block;

/** What stands in place of a picture that is left out. */
const LEFT_OUT_IMAGE = "[image left out]";

/** A picture, in the message itself or (`imageUrl`, as `@espalier/interop` keeps it) at an address. */
export const isPicture = ({ type }: { type: string }): boolean => type === "image" || type === "imageUrl";

/** A picture's place becomes a word; every other block stays. */
const withoutImage = (block: ContentBlock): ContentBlock =>
  isPicture(block) ? { type: "text", text: LEFT_OUT_IMAGE } : block;

/**
 * What of a request's bytes stays when pictures are left out. Less than all of them: each picture that goes changes what
 * the provider has cached, and one or two new ones must not make the next ones go with every request.
 */
const SHARE_KEPT = 0.75;

/** Bytes of pictures that have to go from a request of this size; 0 when it is not too large. */
export const excessBytes = (bytes: number, requestBytes: number): number =>
  bytes > requestBytes ? Math.ceil(bytes - SHARE_KEPT * requestBytes) : 0;

/**
 * Pictures of at least `excess` bytes, if there are as many: the newest stay, as far as they fit, and those of a message that
 * waits for its answer stay in any case.
 *
 * @param items what a request is made of, oldest first, edits applied
 * @param excess bytes; infinite for all pictures
 * @param waiting the item whose message waits
 */
export function excessPictures(
  items: readonly ProjectedEntry[],
  excess: number,
  waiting?: ProjectedEntry,
): ContentBlock[] {
  if (excess <= 0) return [];
  const candidates = items.filter((item) => item !== waiting && canLose(item));
  const pictures = candidates.flatMap(({ messages }) => picturesOf(messages[0]!));
  let room = pictures.reduce((sum, picture) => sum + freedBy(picture), 0) - excess;
  const staying = new Set<ContentBlock>();
  for (const picture of pictures.toReversed()) {
    const bytes = freedBy(picture);
    if (bytes > room) continue;
    staying.add(picture);
    room -= bytes;
  }
  return pictures.filter((picture) => !staying.has(picture));
}

/** Edits that leave out {@link excessPictures}. The log keeps the originals. */
export function pictureEdits(
  items: readonly ProjectedEntry[],
  excess: number,
  waiting?: ProjectedEntry,
): ContextEdit[] {
  const out = excessPictures(items, excess, waiting);
  return editsWithout(items, new Map(out.map((picture) => [picture, ""])));
}

/**
 * Edits that leave out some pictures of what a request is made of.
 *
 * @param out each with a word on why, which the model reads in its place; none where it is empty
 */
export function editsWithout(
  items: readonly ProjectedEntry[],
  out: ReadonlyMap<ContentBlock, string>,
): ContextEdit[] {
  return items
    .filter((item) => canLose(item) && picturesOf(item.messages[0]!).some((picture) => out.has(picture)))
    .map(({ entry, messages }) => {
      const content = contentOf(messages[0]!).map((block) => {
        const why = out.get(block);
        if (why === undefined) return block;
        return why === "" ? withoutImage(block) : { type: "text", text: `[image left out: ${why}]` };
      });
      return { targetId: entry.id, replacement: { content } as NonNullable<ContextEdit["replacement"]> };
    });
}

/** Roles that carry pictures and whose content an edit replaces. */
const WITH_PICTURES: ReadonlySet<string> = new Set(["user", "custom", "toolResult"]);

const canLose = ({ messages }: ProjectedEntry): boolean =>
  messages.length === 1 && WITH_PICTURES.has(messages[0]!.role);
const contentOf = (message: ContextMessage): ContentBlock[] =>
  contentBlocks(message as { content?: unknown });
const picturesOf = (message: ContextMessage): ContentBlock[] => contentOf(message).filter(isPicture);

/** Bytes that a request is smaller by without a picture. */
const freedBy = (picture: ContentBlock): number =>
  Math.max(0, blockBytes(picture) - blockBytes(withoutImage(picture)));
