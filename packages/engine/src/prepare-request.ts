import { CompactionError, type NothingToCompact, tokenBudget } from "@espalier/compaction";
import { summaryNote } from "@espalier/policies";
import {
  estimateTokens,
  refuseEmptySchemas,
  type SessionContext,
  SessionTreeError,
  type SessionTreeErrorCode,
} from "@espalier/session-tree";
import { compactWhenDue, withoutReserve } from "./compact-when-due.ts";
import { reportFailure } from "./compaction-events.ts";
import { situationOf } from "./compaction-request.ts";
import type { CompactionResult, CompactSessionOptions } from "./compaction-run.ts";
import {
  type LeftOutPicture,
  leaveOutPictures,
  type PictureLimits,
  pictureLimitsOf,
} from "./leave-out-pictures.ts";
import { bringFilesHome, type OffloadedResults, offloadResults } from "./offload-results.ts";
import { policyInForce } from "./policy-in-force.ts";
import { overheadBytesOf, overheadOf, type RequestExtras } from "./request-overhead.ts";
import {
  isTooLarge,
  overBytes,
  overWindow,
  type RequestLimits,
  type RequestSize,
  refuseLargeMessage,
  requestSize,
  windowFitting,
} from "./request-size.ts";
import type { SessionState } from "./session-state.ts";

/** What a request goes out with besides the context, and how a compaction before it is made. */
export interface RequestPreparation extends Omit<CompactSessionOptions, "reason">, RequestExtras {
  /** Pictures that the provider takes; by default what is known of the provider of the model in force. */
  pictures?: Partial<PictureLimits>;
}

/** A context ready to be made into a request. */
export interface PreparedRequest {
  /** Shaped by the policy, then by extensions. */
  context: SessionContext;
  /** The caller's system prompt, and what the policy adds to it. */
  system: string | undefined;
  /** What was moved to files; null for nothing. */
  offloaded: OffloadedResults | null;
  /** The compaction that came before; null for none. */
  compaction: CompactionResult | null;
  /** Pictures that were left out of the context, since the provider would have refused them; empty for none. */
  picturesLeftOut: LeftOutPicture[];
  /** Why something that was due (files, a compaction) did not come about although the request can go out; null otherwise. */
  failure: Error | null;
}

/** The acts of a session that preparing a request takes. */
export interface PreparedSession extends SessionState {
  compact(options: CompactSessionOptions): Promise<CompactionResult | NothingToCompact>;
  contextToSend(signal?: AbortSignal): Promise<SessionContext>;
  /** The context that the policy lets go out. */
  readonly requestContext: SessionContext;
}

/**
 * Everything that happens before a request goes out, in order: files that the context refers to are there; large
 * results move to files; the policy is judged and compacts, and so it does where the answer would have no reserve; pictures
 * that its provider does not take, and the oldest where there are too many of them or too many bytes, are left out; what
 * does not fit the model's window or these bytes all the same is compacted as the
 * default policy does, or is an error; the policy and then the extensions shape what is sent.
 *
 * It fails open: a compaction that does not come about is logged, published and in `failure`, and the request goes out
 * as it is, as long as it fits the window and the bytes. An abort, and a log that cannot be written, are thrown.
 *
 * @throws CompactionError `over-window`, `over-bytes`, `auto-off`, `irreducible`, `exhausted`; SummarizerError; SessionTreeError `bad-tool`
 */
export async function prepareRequest(
  session: PreparedSession,
  options: RequestPreparation = {},
): Promise<PreparedRequest> {
  refuseEmptySchemas(options.tools);
  const policy = policyInForce(session, options);
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
      failure = goOnWithout(session, error, options.signal);
      return undefined;
    }
  };

  await tried(() => bringFilesHome(session));
  const offloaded = isJudgedNow ? await tried(() => offloadResults(session, policy, situation())) : undefined;
  let done = autoCompact ? await tried(() => compactDue(offloaded)) : undefined;
  // A policy that finds nothing to do, or counts otherwise, leaves the reserve to the default policy's way.
  const isFitted = done?.eligible && policy.estimate === estimateTokens;
  if (!failure && !isFitted && policy !== tokenBudget && withoutReserve(policy, situation()))
    done = (await tried(() => compact({ ...request, policy: tokenBudget, reason: "threshold" }))) ?? done;

  const measured = () => requestSize(session.requestContext, limits);
  let size = measured();
  const picturesLeftOut: LeftOutPicture[] = [];
  const pictures = { ...pictureLimitsOf(session.requestContext.model), ...options.pictures };
  const leaveOut = async (bytes: number) => {
    if (!autoCompact) return;
    const budget = { limits: pictures, bytes, requestBytes };
    const out = await tried(() => leaveOutPictures(session, session.requestContext, budget));
    if (out?.length) picturesLeftOut.push(...out);
    size = measured();
  };
  await leaveOut(0);
  if (size.isOverBytes) {
    refuseLargeMessage(session, size, limits);
    await leaveOut(size.bytes);
  }
  if (failure && isTooLarge(size)) throw failure;
  // The first of the two may have joined a compaction that was under way.
  for (let attempt = 0; attempt < 2 && isTooLarge(size); attempt++) {
    done = await compactToFit(size);
    size = measured();
  }
  if (size.isOverWindow) throw overWindow(size, limits);
  if (size.isOverBytes) throw overBytes(size, limits);

  const context = await session.contextToSend(options.signal);
  const system = [options.system, summaryNote(session.core.window.entries)].filter(Boolean).join("\n\n");
  return {
    context,
    system: system || undefined,
    offloaded: offloaded?.offloadedCount ? offloaded : null,
    compaction: done?.eligible ? done : null,
    picturesLeftOut,
    failure,
  };

  /** As the policy says; one that is judged after appends does its own work in the background, and keeps the reserve here. */
  async function compactDue(moved: OffloadedResults | undefined) {
    if (isJudgedNow)
      return compactWhenDue(session, { ...request, ...(moved ? { offloaded: moved } : {}) }, compact);
    const reason = withoutReserve(policy, situation());
    return reason && compact({ ...request, reason });
  }

  function compact(due: CompactSessionOptions) {
    return session.compact(due);
  }

  async function compactToFit(before: RequestSize) {
    const settings = { ...request.settings, contextWindow: windowFitting(before, limits) };
    try {
      return await compact({ ...request, settings, policy: tokenBudget, reason: "threshold" });
    } catch (cause) {
      const isIrreducible = cause instanceof CompactionError && cause.code === "irreducible";
      // A window that was made for the bytes is none that anybody knows.
      throw isIrreducible && before.isOverBytes ? overBytes(before, limits, { cause }) : cause;
    }
  }
}

/**
 * Reports a failure and returns it. Throws it all the same where the caller aborted, and where the log itself is in
 * trouble: that is not the compaction's.
 */
function goOnWithout(session: SessionState, error: unknown, signal: AbortSignal | undefined): Error {
  const isOfLog = error instanceof SessionTreeError && !REFUSED_ENTRY.has(error.code);
  if (!(error instanceof Error) || isOfLog || signal?.aborted) throw error;
  reportFailure(session, error);
  return error;
}

/** An entry that an append refuses is the fault of who made it; the log can be written all the same. */
const REFUSED_ENTRY: ReadonlySet<SessionTreeErrorCode> = new Set(["invalid-entry", "off-path"]);
