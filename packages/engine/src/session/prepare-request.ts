import {
  editsWithout,
  excessBytes,
  excessPictures,
  isPicture,
  readSpan,
  tokenBudget,
  trustedTokens,
  waitingItem,
} from "@espalier/compaction";
import { EventType, summaryNote } from "@espalier/compaction/policies";
import { EspalierError } from "@espalier/jsonl-stream";
import {
  blockBytes,
  type ContentBlock,
  type ContextMessage,
  contentBlocks,
  contextEdit,
  estimateTokens,
  healedImage,
  isFailedAnswer,
  isLogError,
  refuseEmptySchemas,
  type SessionContext,
  totalBytes,
} from "@espalier/session-tree";
import { imageSize } from "image-size";
import type { CommittedCompaction, CompactionRequest } from "../compaction/draft.ts";
import { bringFilesHome, type OffloadedResults, offloadResults } from "../compaction/offload.ts";
import { overheadBytesOf, overheadOf, type RequestExtras, situationOf } from "../compaction/request.ts";
import { compactWhenDue, reportFailure, withoutReserve } from "../compaction/run.ts";
import { contextForHandlers } from "../extensions/context.ts";
import { refuseOverBudget } from "../turn/budget.ts";
import { tellCacheBreak } from "./cache-watch.ts";
import type { Session } from "./session.ts";
import { context as contextHook, currentPolicy, shapedContext } from "./state.ts";

/** Options of a request other than its context, and of a compaction before it. */
export interface RequestPreparation extends Omit<CompactionRequest, "reason">, RequestExtras {
  /** Limits of pictures. Default: the known limits of the current model's provider. */
  pictures?: Partial<PictureLimits>;
}

/** A context that is ready to be converted to a request. */
export interface PreparedRequest {
  /** The context as shaped by the policy and then by extensions. */
  context: SessionContext;
  /** The caller's system prompt, and the addition of the policy. */
  system: string | undefined;
  /** Results that were moved to files; null when none were. */
  offloaded: OffloadedResults | null;
  /** Compaction before the request; null when there was none. */
  compaction: CommittedCompaction | null;
  /** Pictures that were left out of the context because the provider would have refused them. */
  picturesLeftOut: LeftOutPicture[];
  /** Error of a failed compaction or file, when the request can be sent in spite of it; null otherwise. */
  failure: Error | null;
}

/**
 * Prepares a request, in this order:
 *
 * 1. restore: missing files that the context refers to are written again;
 * 2. offload: large results move to files;
 * 3. compact: as the policy decides, and when the answer would have no reserve;
 * 4. leave out: pictures that the provider refuses, and the oldest ones when there are too many, or too many bytes;
 * 5. fit: a request that is still too large for the window or the bytes is compacted as the default policy does;
 * 6. shape: the policy, then the extensions, shape the context that is sent.
 *
 * A failed compaction is logged, published and returned in `failure`, and the request can be sent
 * unchanged, as long as it fits the window and the bytes. An abort, and a log that cannot be written, are thrown.
 *
 * @throws EspalierError `over-window`, `over-bytes`, `over-budget`, `auto-off`, `irreducible`, `exhausted`; EspalierError; `bad-tool`
 */
export async function prepareRequest(
  session: Session,
  options: RequestPreparation = {},
): Promise<PreparedRequest> {
  refuseEmptySchemas(options.tools);
  const policy = currentPolicy(session, options);
  const request = { ...options, policy, overheadTokens: overheadOf(policy, options) };
  const situation = () => situationOf(session, request);
  const { autoCompact, contextWindow, requestBytes } = situation().settings;
  const { overheadTokens } = request;
  const overheadBytes = overheadBytesOf(options, overheadTokens);
  const limits: RequestLimits = { contextWindow, requestBytes, overheadTokens, overheadBytes };
  const isJudgedNow = autoCompact && policy.judgedAt === "request";
  let failure: Error | null = null;
  const tried = async <Result>(act: () => Promise<Result | undefined>): Promise<Result | undefined> => {
    try {
      return await act();
    } catch (error) {
      if (!(error instanceof Error) || isLogError(error) || options.signal?.aborted) throw error;
      reportFailure(session, error);
      failure = error;
      return undefined;
    }
  };

  await tried(() => bringFilesHome(session));
  const offloaded = isJudgedNow ? await tried(() => offloadResults(session, policy, situation())) : undefined;
  let done = autoCompact ? await tried(() => compactDue(offloaded)) : undefined;
  // A policy that is not due, or that counts in other units, leaves the reserve to the default policy.
  const isFitted = done?.eligible && policy.estimate === estimateTokens;
  if (!failure && !isFitted && policy !== tokenBudget && withoutReserve(policy, situation()))
    done =
      (await tried(() => session.compact({ ...request, policy: tokenBudget, reason: "threshold" }))) ?? done;

  const measured = () => requestSize(session.requestContext, limits);
  let size = measured();
  const picturesLeftOut: LeftOutPicture[] = [];
  const pictures = { ...pictureLimitsOf(session.requestContext.model), ...options.pictures };
  const leaveOut = async (bytes: number) => {
    if (!autoCompact) return;
    const sent = session.requestContext;
    const out = await tried(() => leaveOutPictures(session, sent, pictures, bytes, requestBytes));
    if (out?.length) picturesLeftOut.push(...out);
    size = measured();
  };
  await leaveOut(0);
  if (size.isOverBytes) {
    // When the newest message alone has too many bytes, neither an edit nor a compaction helps.
    const newest = totalBytes(waitingItem(readSpan(session.window.entries))?.messages ?? []);
    if (overheadBytes + newest > requestBytes) throw overBytes(size, limits, { newestUserMessage: newest });
    await leaveOut(size.bytes);
  }
  const isTooLarge = () => size.isOverWindow || size.isOverBytes;
  if (failure && isTooLarge()) throw failure;
  // The first attempt may have joined a compaction that was already running.
  for (let attempt = 0; attempt < 2 && isTooLarge(); attempt++) {
    done = await compactToFit(size);
    size = measured();
  }
  if (size.isOverWindow) throw overWindow(size, limits);
  if (size.isOverBytes) throw overBytes(size, limits);

  await refuseOverBudget(session, size.tokens);

  const context = await contextToSend(session, options.signal);
  const system = [options.system, summaryNote(session.window.entries)].filter(Boolean).join("\n\n");
  await tellCacheBreak(session, { system, ...(options.tools ? { tools: options.tools } : {}) });
  return {
    context,
    system: system || undefined,
    offloaded: offloaded?.offloadedCount ? offloaded : null,
    compaction: done?.eligible ? done : null,
    picturesLeftOut,
    failure,
  };

  /**
   * Compacts as the policy decides. A policy that is evaluated after appends runs in the background; here only the
   * reserve is ensured.
   */
  async function compactDue(moved: OffloadedResults | undefined) {
    if (isJudgedNow) return compactWhenDue(session, { ...request, ...(moved ? { offloaded: moved } : {}) });
    const reason = withoutReserve(policy, situation());
    return reason && session.compact({ ...request, reason });
  }

  /**
   * Compacts for a window in which requests fit both limits. An excess of bytes reduces the window in tokens by the
   * same share.
   */
  async function compactToFit(before: RequestSize) {
    const tokens = Math.min(before.tokens, contextWindow);
    const fitting = before.isOverBytes
      ? Math.max(1, Math.floor((tokens * requestBytes) / before.bytes))
      : contextWindow;
    const settings = { ...request.settings, contextWindow: fitting };
    try {
      return await session.compact({ ...request, settings, policy: tokenBudget, reason: "threshold" });
    } catch (cause) {
      const isIrreducible = cause instanceof EspalierError && cause.code === "irreducible";
      // The caller does not know the window that was derived from the bytes.
      throw isIrreducible && before.isOverBytes ? overBytes(before, limits, { cause }) : cause;
    }
  }
}

/** Returns the context of the leaf, shaped by the policy, then by extensions. */
export async function contextToSend(session: Session, signal?: AbortSignal): Promise<SessionContext> {
  const shaped = session.requestContext;
  if (!session.host.has(contextHook)) return shaped;
  const given = shaped.messages.filter(({ role }) => role !== "system");
  const changed = await session.host.transform(contextHook, given, contextForHandlers(session, signal));
  if (changed === given) return shaped;
  return shapedContext(shaped, withSystem(shaped.messages, changed));
}

/**
 * Returns the messages that handlers returned, with the system messages, which handlers may not drop, at their old
 * positions.
 */
function withSystem(before: readonly ContextMessage[], changed: readonly ContextMessage[]): ContextMessage[] {
  const messages = [...changed];
  let at = 0;
  for (const message of before) {
    if (message.role === "system") messages.splice(at++, 0, message);
    else if (messages[at] === message) at++;
    else at = Math.max(at, messages.indexOf(message) + 1);
  }
  return messages;
}

/** Limits of a request, and its size without the context: tokens, and bytes. */
type RequestLimits = Record<"contextWindow" | "requestBytes" | "overheadTokens" | "overheadBytes", number>;

/**
 * Returns the size of the next request in tokens and in bytes. When the context has only grown, only the new messages
 * are measured.
 */
function requestSize(context: SessionContext, limits: RequestLimits) {
  const tokens = trustedTokens(context, limits.overheadTokens);
  const bytes = limits.overheadBytes + totalBytes(context.messages);
  return {
    tokens,
    bytes,
    isOverWindow: tokens > limits.contextWindow,
    isOverBytes: bytes > limits.requestBytes,
  };
}

type RequestSize = ReturnType<typeof requestSize>;

const counted = (count: number): string => count.toLocaleString("en-US");

/** Makes the error for a request that exceeds the window. */
function overWindow({ tokens }: RequestSize, limits: RequestLimits): EspalierError {
  const { contextWindow, overheadTokens } = limits;
  return new EspalierError(
    "over-window",
    `The request has about ${counted(tokens)} tokens, but the model's window is ${counted(contextWindow)}; use a model with a larger window, or compact by hand and keep less.`,
    { breakdown: { contextTokens: tokens - overheadTokens, systemAndTools: overheadTokens, contextWindow } },
  );
}

/** Makes the error for a request with more bytes than its provider accepts. */
function overBytes(
  { bytes }: RequestSize,
  { requestBytes, overheadBytes }: RequestLimits,
  { cause, ...newest }: { newestUserMessage?: number; cause?: unknown } = {},
): EspalierError {
  const { newestUserMessage } = newest;
  const what = newestUserMessage === undefined ? "The request has" : "The newest user message has";
  return new EspalierError(
    "over-bytes",
    `${what} about ${counted(newestUserMessage ?? bytes)} bytes, but the provider accepts ${counted(requestBytes)} (requestBytes) in all; send fewer or smaller pictures, or go back to before that message.`,
    {
      breakdown: { context: bytes - overheadBytes, systemAndTools: overheadBytes, ...newest, requestBytes },
      ...(cause === undefined ? {} : { cause }),
    },
  );
}

/** Limits of a provider for pictures. */
export interface PictureLimits {
  /** Maximum number of pixels of the longer side. */
  side: number;
  /** Number of pictures in one request above which `manySide` applies. */
  manyOver: number;
  /** Maximum number of pixels of the longer side in a request with more than `manyOver` pictures. */
  manySide: number;
  /** Maximum number of pictures in one request. */
  count: number;
  /** Maximum number of characters of base64 of one picture. */
  bytes: number;
}

/**
 * Limits of Anthropic: 8,000 px, 2,000 px with more than 20 pictures, and 100 pictures (its guide to vision; models
 * with a window of more than 200,000 tokens accept more), 5 MiB of base64 each (its error message: "image exceeds 5 MB
 * maximum"). No known limits are stricter, so they apply to unknown providers too.
 */
const STRICTEST: PictureLimits = { side: 8_000, manyOver: 20, manySide: 2_000, count: 100, bytes: 5_242_880 };

/** Limits of OpenAI, from its guide to images: 500 in a request, 20 MB each; large ones are scaled down. */
const OPENAI: PictureLimits = {
  side: Number.POSITIVE_INFINITY,
  manyOver: Number.POSITIVE_INFINITY,
  manySide: Number.POSITIVE_INFINITY,
  count: 500,
  bytes: 20_000_000,
};

/** Returns the limits of a model's provider. */
const pictureLimitsOf = (model: SessionContext["model"]): PictureLimits =>
  model && /^(openai|azure)/.test(model.provider) ? OPENAI : STRICTEST;

/** A picture that was left out of the context before a request. The log still has it. */
export interface LeftOutPicture {
  /** Entry with the picture. */
  entryId: string;
  /** Reason, such as `9000 pixels wide or high, of 8000 at most`. */
  reason: string;
}

/**
 * Leaves out pictures for which the provider would refuse the request: pictures that it never accepts, and the oldest
 * ones when there are too many, or too many bytes. This is done by edits: the log keeps the pictures, and no model is
 * called. When there are too many, only three quarters of the limit are kept, so that the next pictures leave the
 * provider's cache valid. Pictures that no model has read are kept, if the provider accepts them.
 *
 * @param sent the context of the request
 * @param bytes size of the whole request
 * @param requestBytes maximum number of bytes of a request
 */
async function leaveOutPictures(
  session: Session,
  sent: SessionContext,
  limits: PictureLimits,
  bytes: number,
  requestBytes: number,
): Promise<LeftOutPicture[]> {
  const refused = refusedPictures(sent.messages, limits);
  if (refused.size === 0 && bytes <= requestBytes) return [];
  const sources = new Set(sent.sources);
  const span = readSpan(session.window.entries);
  const items = span.items.filter(({ entry }) => sources.has(entry.id));
  let freed = 0;
  for (const picture of refused.keys()) freed += blockBytes(picture);
  const excess = excessBytes(bytes - freed, requestBytes);
  const out = new Map(refused);
  const why = `the request had more than ${requestBytes} bytes`;
  for (const picture of excessPictures(items, excess, waitingItem(span)))
    if (!out.has(picture)) out.set(picture, why);
  const edits = editsWithout(items, out);
  if (edits.length === 0) return [];
  await session.append(edits.map((edit) => contextEdit.of(edit)));
  const edited = new Set(edits.map(({ targetId }) => targetId));
  const told = items
    .filter(({ entry }) => edited.has(entry.id))
    .flatMap(({ entry: { id: entryId }, messages }) =>
      messages
        .flatMap(contentBlocks)
        .flatMap((block) => out.get(block) ?? [])
        .map((reason) => ({ entryId, reason })),
    );
  const reasons = [...new Set(told.map(({ reason }) => reason))];
  session.events.publish(EventType.STATE_CHANGED, {
    name: "session.pictures",
    data: { messages: edits.length, reasons },
  });
  return told;
}

/** Share of the pictures that is kept when there are too many, so that the next pictures are not too many again. */
const SHARE_KEPT = 0.75;

/**
 * Returns the pictures that the provider would refuse, each with the reason; the oldest ones when there are too many.
 */
function refusedPictures(
  messages: readonly ContextMessage[],
  limits: PictureLimits,
): Map<ContentBlock, string> {
  const out = new Map<ContentBlock, string>();
  let pictures = messages.flatMap(contentBlocks).filter(isPicture);
  const leaveOut = (gone: readonly ContentBlock[], reason: string) => {
    for (const block of gone) out.set(block, reason);
    pictures = pictures.filter((block) => !out.has(block));
  };
  for (const block of pictures) {
    const reason = reasonAlone(block, limits);
    if (reason) out.set(block, reason);
  }
  pictures = pictures.filter((block) => !out.has(block));
  const { manyOver, manySide, count } = limits;
  const unseen = unseenPictures(messages);
  const areLarge = pictures.filter((block) => measured(block).side > manySide);
  if (pictures.length > manyOver && areLarge.length > 0) {
    const areNew = areLarge.some((block) => unseen.has(block));
    const room = Math.max(Math.floor(manyOver * SHARE_KEPT), Math.min(unseen.size, manyOver));
    if (areNew && unseen.size <= manyOver)
      leaveOut(
        pictures.slice(0, -room),
        `more than ${manyOver} pictures, one of them over ${manySide} pixels`,
      );
    else leaveOut(areLarge, `over ${manySide} pixels, among more than ${manyOver} pictures`);
  }
  if (pictures.length > count) {
    const room = Math.max(Math.floor(count * SHARE_KEPT), Math.min(unseen.size, count));
    leaveOut(pictures.slice(0, -room), `more than ${count} pictures`);
  }
  return out;
}

/** Returns the reason for which a picture cannot be sent even alone. */
function reasonAlone(block: ContentBlock, limits: PictureLimits): string | undefined {
  const { isReadable, bytes, side } = measured(block);
  if (!isReadable) return "no picture in base64 that models read";
  if (bytes > limits.bytes)
    return `${counted(bytes)} characters of base64, of ${counted(limits.bytes)} at most`;
  return side > limits.side ? `${side} pixels wide or high, of ${limits.side} at most` : undefined;
}

/** Returns the pictures after the last answer, which no model has read. */
function unseenPictures(messages: readonly ContextMessage[]): Set<ContentBlock> {
  const answered = messages.findLastIndex(
    (message) => message?.role === "assistant" && !isFailedAnswer(message),
  );
  return new Set(
    messages
      .slice(answered + 1)
      .flatMap(contentBlocks)
      .filter(isPicture),
  );
}

const measures = new WeakMap<ContentBlock, { isReadable: boolean; bytes: number; side: number }>();

/**
 * Measures a picture. `bytes`: length of its base64 text, 0 for a picture at an address. `side`: pixels of the longer
 * side, 0 if unknown.
 */
function measured(block: ContentBlock) {
  const known = measures.get(block);
  if (known) return known;
  const image = block.type === "image" ? healedImage(block) : undefined;
  const measure =
    image?.type === "image"
      ? { isReadable: true, bytes: image.data.length, side: longerSide(image.data) }
      : { isReadable: block.type !== "image", bytes: 0, side: 0 };
  measures.set(block, measure);
  return measure;
}

/** Number of characters of base64 that almost always include the size of a picture, even after a large profile. */
const HEAD = 262_144;

function longerSide(data: string): number {
  for (const head of data.length > HEAD ? [data.slice(0, HEAD), data] : [data]) {
    try {
      const { width, height } = imageSize(Buffer.from(head, "base64"));
      return Math.max(width, height);
    } catch {
      // This part does not have the size, or the picture has none: the provider then decides.
    }
  }
  return 0;
}
