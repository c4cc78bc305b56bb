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

/**
 * The size to which all larger ones are cut so that the sum falls by `excess`; the smaller ones stay whole. 0 when not
 * even leaving everything out is enough.
 */
export function commonLimit(sizes: readonly number[], excess: number): number {
  const sorted = [...sizes].sort((a, b) => b - a);
  let freed = 0;
  for (let count = 1; count <= sorted.length; count++) {
    const next = sorted[count] ?? 0;
    const step = (sorted[count - 1]! - next) * count;
    if (freed + step >= excess) return Math.floor(sorted[count - 1]! - (excess - freed) / count);
    freed += step;
  }
  return 0;
}
