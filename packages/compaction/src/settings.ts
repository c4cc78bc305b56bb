import { EspalierError } from "@espalier/jsonl-stream";

/** Settings of compaction. All sizes but `requestBytes` are tokens. */
export interface CompactionSettings {
  /** False: nothing compacts by itself; commands still do, and an overflow is a typed error. Default true. */
  autoCompact: boolean;
  /** Kept free for the answer: compaction is due above `contextWindow − reserveTokens`. Default 16,384. */
  reserveTokens: number;
  /** Size of the newest part of the conversation that stays. Default 20,000 (origins 002). */
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

/** Share of a window for the context where the reserve, made for a larger model, exceeds it. */
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

interface SettingsRange {
  least: number;
  most?: number;
}

/** Returns the settings. Throws for the first one that is no whole number or out of its range; undefined passes. */
export function checkRanges<Settings extends object>(
  settings: Settings,
  ranges: Partial<Record<keyof Settings & string, SettingsRange>>,
): Settings {
  for (const [key, range] of Object.entries(ranges) as [keyof Settings & string, SettingsRange][]) {
    const value: unknown = settings[key];
    const { least, most = Number.POSITIVE_INFINITY } = range;
    if (value === undefined) continue;
    if (typeof value === "number" && Number.isInteger(value) && value >= least && value <= most) continue;
    const allowed = Number.isFinite(most) ? `from ${least} to ${most}` : `from ${least} on`;
    const message = `The setting ${key} is ${JSON.stringify(value) ?? String(value)}; give it a whole number ${allowed}.`;
    throw new EspalierError("settings", message, { keys: [key] });
  }
  return settings;
}

/** Throws unless the setting `smaller` is below `larger`; the message names both. */
export function checkBelow<Settings extends object>(
  settings: Settings,
  smaller: keyof Settings & string,
  larger: keyof Settings & string,
): void {
  if (Number(settings[smaller]) < Number(settings[larger])) return;
  const message = `The setting ${smaller} (${settings[smaller]}) must be below ${larger} (${settings[larger]}); lower the first or raise the second.`;
  throw new EspalierError("settings", message, { keys: [smaller, larger] });
}
