// Separate from session.ts: the steps before a request are one noun; the class only names them.
import { readSpan, tokenBudget, trustedTokens, waitingItem } from "@espalier/compaction";
import { summaryNote } from "@espalier/compaction/policies";
import { EspalierError, jsonText } from "@espalier/jsonl-stream";
import {
  type ContextMessage,
  estimateTokens,
  formatCount,
  isLogError,
  isMessage,
  refuseEmptySchemas,
  type SessionContext,
  totalBytes,
} from "@espalier/session-tree";
import type { CommittedCompaction, CompactionRequest } from "../compaction/draft.ts";
import { bringFilesHome, type OffloadedResults, offloadResults } from "../compaction/offload.ts";
import {
  overheadBytesOf,
  overheadOf,
  pricesAt,
  type RequestExtras,
  situationOf,
} from "../compaction/request.ts";
import { compactWhenDue, reportFailure, withoutReserve } from "../compaction/run.ts";
import { contextForHandlers } from "../extensions/context.ts";
import { lastCall } from "../reading/bills.ts";
import {
  CACHE_LIFE_MS,
  CACHE_SLACK,
  type CacheCause,
  type Compared,
  RequestReader,
} from "../reading/requests.ts";
import { refuseOverBudget } from "../turn/budget.ts";
import { type LeftOutPicture, leaveOutPictures, type PictureLimits } from "./pictures.ts";
import type { Session } from "./session.ts";
import {
  type CacheBreakEvent,
  cacheBreak,
  context as contextHook,
  currentPolicy,
  shapedContext,
} from "./state.ts";

/** Options of a request other than its context, and of a compaction before it. */
export interface RequestPreparation extends Omit<CompactionRequest, "reason">, RequestExtras {
  /** Limits of images. Default: the known limits of the current model's provider. */
  pictures?: Partial<PictureLimits>;
}

/** A context that is ready to be converted to a request. */
export interface PreparedRequest {
  /** The context as shaped by the policy and then by extensions. */
  context: SessionContext;
  /** The caller's system prompt, and a note on the summaries of the policy; undefined when there is neither. */
  system: string | undefined;
  /** Results that were moved to files; null when none were. */
  offloaded: OffloadedResults | null;
  /** Compaction before the request; null when there was none. */
  compaction: CommittedCompaction | null;
  /** Images that were left out of the context because the provider would have refused them. */
  picturesLeftOut: LeftOutPicture[];
  /** Error of step 1, 2, 3 or 4 of `Session.prepareRequest`, if the request can be sent all the same; null otherwise. */
  failure: Error | null;
}

/**
 * Prepares a request, in this order:
 *
 * 1. restore: missing files that the context refers to are written again, and edits name files that are elsewhere;
 * 2. offload: large results move to files;
 * 3. compact: as the policy decides, and when the answer would have no reserve;
 * 4. leave out: images that the provider refuses, and the oldest ones when there are too many, or too many bytes;
 * 5. fit: a request that is still too large for the window or the bytes is compacted as the default policy does;
 * 6. budget: a request that would exceed `maxCost` is refused;
 * 7. shape: the policy, then the extensions, shape the context that is sent;
 * 8. notify: extensions are notified if the request will miss the prompt cache.
 *
 * Without `autoCompact`, steps 2 and 4 do nothing, and nothing is compacted: if step 5 is necessary, `auto-off` is
 * thrown. A failure of steps 1 to 4 is logged, published and returned in `failure`, and the request can be sent
 * unchanged, if it fits the window and the bytes. An abort, and a log that cannot be written, are thrown, and the errors
 * of `Session.prepareRequest`.
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
  const leaveOut = async (bytes: number) => {
    if (!autoCompact) return;
    const out = await tried(() => leaveOutPictures(session, options.pictures, bytes, requestBytes));
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
  await tellCacheBreak(session, { system, tools: options.tools });
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

/** Limits of a request, and the size of its system prompt and tools, each in tokens and in bytes. */
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

function overWindow({ tokens }: RequestSize, limits: RequestLimits): EspalierError {
  const { contextWindow, overheadTokens } = limits;
  return new EspalierError(
    "over-window",
    `The request has about ${formatCount(tokens)} tokens, but the model's window is ${formatCount(contextWindow)}; use a model with a larger window, or compact by hand and keep less.`,
    { breakdown: { contextTokens: tokens - overheadTokens, systemAndTools: overheadTokens, contextWindow } },
  );
}

function overBytes(
  { bytes }: RequestSize,
  { requestBytes, overheadBytes }: RequestLimits,
  { cause, ...newest }: { newestUserMessage?: number; cause?: unknown } = {},
): EspalierError {
  const { newestUserMessage } = newest;
  const what = newestUserMessage === undefined ? "The request has" : "The newest user message has";
  return new EspalierError(
    "over-bytes",
    `${what} about ${formatCount(newestUserMessage ?? bytes)} bytes, but the provider accepts ${formatCount(requestBytes)} (requestBytes) in all; send fewer or smaller images, or go back to before that message.`,
    {
      breakdown: { context: bytes - overheadBytes, systemAndTools: overheadBytes, ...newest, requestBytes },
      ...(cause === undefined ? {} : { cause }),
    },
  );
}

/** Last sent request, with facts that the file does not have. */
interface Sent {
  system: string | undefined;
  tools: string;
  /** Time of the request, in epoch milliseconds. */
  at: number;
}

const sent = new WeakMap<Session, Sent>();

/**
 * Compares the next request with the previous one, and notifies extensions of a break of the prompt cache. Does nothing
 * when no extension listens, or when the session is not loaded.
 */
async function tellCacheBreak(
  session: Session,
  { system, tools = [] }: Pick<RequestExtras, "system" | "tools">,
): Promise<void> {
  if (!session.host.has(cacheBreak) || !session.log.view) return;
  const before = sent.get(session);
  const now = { system, tools: jsonText(tools), at: session.now() };
  sent.set(session, now);
  const event = breakAt(session, before, now);
  if (event && event.tokens > CACHE_SLACK) await session.tell(cacheBreak, event);
}

function breakAt(session: Session, before: Sent | undefined, now: Sent): CacheBreakEvent | undefined {
  const { tree, leafId } = session;
  const last = lastCall(tree);
  if (!last) return undefined;
  const requests = new RequestReader(tree);
  requests.next(tree.index.parent(last.row));
  const compared = requests.next(leafId === null ? -1 : tree.row(leafId));
  const found = causeOf(session, { compared, before, now, last });
  if (!found) return undefined;
  const { prefix, beforeTokens } = compared;
  // Another model, a pause, or a change before the messages invalidates the whole cache.
  const isWhole = found !== compared.difference || found.cause === "thinking-level";
  const share = isWhole || beforeTokens === 0 ? 1 : 1 - prefix.tokens / beforeTokens;
  const kept = Math.round(last.context * share);
  // Removed content is not paid for: a compaction makes the request smaller.
  const size = Math.round((session.context.tokens * last.context) / (beforeTokens || 1));
  const tokens = Math.min(kept, size);
  const prices = pricesAt(session);
  const cost = prices ? (tokens * Math.max(0, prices.cacheWrite - prices.cacheRead)) / 1_000_000 : null;
  return { ...found, tokens, cost };
}

interface Requests {
  compared: Compared;
  before: Sent | undefined;
  now: Sent;
  last: NonNullable<ReturnType<typeof lastCall>>;
}

function causeOf(
  { context, leafId, window }: Session,
  { compared, before, now, last }: Requests,
): { cause: CacheCause; entryId: string | null } | undefined {
  const { model } = context;
  const { provider, model: modelId } = last.billed;
  if (model && (model.provider !== provider || model.modelId !== modelId)) {
    const change = window.entries.findLast(({ type }) => type === "model_change");
    return { cause: "model", entryId: change?.id ?? leafId };
  }
  if (before && before.tools !== now.tools) return { cause: "tools", entryId: leafId };
  if (before && before.system !== now.system) return { cause: "system-prompt", entryId: leafId };
  if (compared.difference) return compared.difference;
  const words = window.entries.findLast((entry) => isMessage(entry, "user"));
  return now.at - (before?.at ?? last.sentAt) > CACHE_LIFE_MS
    ? { cause: "pause", entryId: words?.id ?? leafId }
    : undefined;
}
