/** How a session is compacted. All sizes but `requestBytes` are tokens. */
export interface CompactionSettings {
  /** False: nothing compacts by itself; commands still do, and an overflow is a typed error. Default true. */
  autoCompact: boolean;
  /** Kept free for the answer: compaction is due above `contextWindow − reserveTokens`. Default 16,384. */
  reserveTokens: number;
  /** How much of the newest conversation stays as it is. Default 20,000 (origins 002). */
  keepRecentTokens: number;
  /** The model's window. Default 200,000, where nothing knows it. */
  contextWindow: number;
  /**
   * The most bytes that the body of a request may have, pictures as base64. Default 32,000,000: what Anthropic's Messages
   * API takes (its documentation of errors, `request_too_large`). Less for clouds and proxies that take less.
   */
  requestBytes: number;
}

/** Sizes in tokens, of a model that reads 200,000; of requests in bytes. */
export const DEFAULT_COMPACTION_SETTINGS: CompactionSettings = {
  autoCompact: true,
  reserveTokens: 16_384,
  keepRecentTokens: 20_000,
  contextWindow: 200_000,
  requestBytes: 32_000_000,
};

/** What of a window is left for the context where a reserve that was made for a larger model exceeds it. */
const SHARE_WITHOUT_RESERVE = 0.5;

/**
 * The size above which a context is too large: the window less the reserve. A reserve that a smaller model's window
 * does not even hold counts as half of that window.
 */
export function thresholdOf({
  contextWindow,
  reserveTokens,
}: Pick<CompactionSettings, "contextWindow" | "reserveTokens">): number {
  return reserveTokens < contextWindow
    ? contextWindow - reserveTokens
    : Math.floor(contextWindow * SHARE_WITHOUT_RESERVE);
}
