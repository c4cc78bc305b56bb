import { CompactionError, readSpan, trustedTokens, waitingItem } from "@espalier/compaction";
import { type SessionContext, totalBytes } from "@espalier/session-tree";
import type { SessionState } from "./session-state.ts";

/** What a request may have, and what goes out with it besides the context. */
export interface RequestLimits {
  /** Tokens. */
  contextWindow: number;
  /** Bytes. */
  requestBytes: number;
  overheadTokens: number;
  overheadBytes: number;
}

/** How large the next request is, in both of its budgets. */
export interface RequestSize {
  tokens: number;
  bytes: number;
  isOverWindow: boolean;
  isOverBytes: boolean;
}

/** Cheap where the context has only grown: of both sizes, what is new is looked at. */
export function requestSize(context: SessionContext, limits: RequestLimits): RequestSize {
  const tokens = trustedTokens(context, limits.overheadTokens);
  const bytes = limits.overheadBytes + totalBytes(context.messages);
  return {
    tokens,
    bytes,
    isOverWindow: tokens > limits.contextWindow,
    isOverBytes: bytes > limits.requestBytes,
  };
}

export const isTooLarge = ({ isOverWindow, isOverBytes }: RequestSize): boolean =>
  isOverWindow || isOverBytes;

/** The window in which a compaction leaves what fits both budgets: of the words, as large a share as of the bytes. */
export function windowFitting({ tokens, bytes, isOverBytes }: RequestSize, limits: RequestLimits): number {
  const { contextWindow, requestBytes } = limits;
  return isOverBytes
    ? Math.max(1, Math.floor((Math.min(tokens, contextWindow) * requestBytes) / bytes))
    : contextWindow;
}

/**
 * Refuses what no edit and no compaction helps: the message that waits for its answer has more bytes than a request.
 *
 * @throws CompactionError `over-bytes`
 */
export function refuseLargeMessage({ core }: SessionState, size: RequestSize, limits: RequestLimits): void {
  const newestUserMessage = totalBytes(waitingItem(readSpan(core.window.entries))?.messages ?? []);
  if (limits.overheadBytes + newestUserMessage > limits.requestBytes)
    throw overBytes(size, limits, { newestUserMessage });
}

/** The error for a request that no window of this size holds. */
export function overWindow({ tokens }: RequestSize, limits: RequestLimits): CompactionError {
  const { contextWindow, overheadTokens } = limits;
  return new CompactionError(
    "over-window",
    `The request has about ${tokens} tokens, and the model reads ${contextWindow}; use a model with a larger window, or compact by hand and keep less.`,
    { breakdown: { contextTokens: tokens - overheadTokens, systemAndTools: overheadTokens, contextWindow } },
  );
}

/** The error for a request that has more bytes than its provider takes. */
export function overBytes(
  { bytes }: RequestSize,
  { requestBytes, overheadBytes }: RequestLimits,
  options: { newestUserMessage?: number; cause?: unknown } = {},
): CompactionError {
  const { newestUserMessage, cause } = options;
  const isNewest = newestUserMessage !== undefined;
  const what = isNewest ? "The newest user message has" : "The request has";
  return new CompactionError(
    "over-bytes",
    `${what} about ${newestUserMessage ?? bytes} bytes, and the provider takes ${requestBytes} (requestBytes) in all; send fewer or smaller pictures, or go back to before that message.`,
    {
      breakdown: {
        context: bytes - overheadBytes,
        systemAndTools: overheadBytes,
        ...(isNewest ? { newestUserMessage } : {}),
        requestBytes,
      },
      ...(cause === undefined ? {} : { cause }),
    },
  );
}
