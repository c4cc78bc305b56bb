import { checkBelow, checkRanges } from "./settings-range.ts";

/** The five numbers of the sliding window (origins 001). */
export interface SlidingWindowSettings {
  /** The most messages of a request, the summary not counted. Default 75. */
  contextSize: number;
  /** The newest messages, which are never summarised. Below `contextSize`. Default 40. */
  tailKeepSize: number;
  /** This many messages beyond the tail make a run due. Default 12. */
  compressionWindowSize: number;
  /** After this many seconds since the last run, any message beyond the tail makes a run due. Default 900. */
  compressionCooldownSec: number;
  /** This many messages beyond the tail make a run due whatever the window says. Default 30. */
  compressionHardLimit: number;
}

/** The numbers of origins 001. */
export const DEFAULT_SLIDING_WINDOW_SETTINGS: SlidingWindowSettings = {
  contextSize: 75,
  tailKeepSize: 40,
  compressionWindowSize: 12,
  compressionCooldownSec: 900,
  compressionHardLimit: 30,
};

/**
 * The settings with defaults filled in.
 * @throws PolicyError `settings`, naming the keys
 */
export function checkSlidingWindowSettings(
  settings: Partial<SlidingWindowSettings> = {},
): SlidingWindowSettings {
  const all = { ...DEFAULT_SLIDING_WINDOW_SETTINGS, ...settings };
  checkRanges(all, {
    contextSize: { least: 2 },
    tailKeepSize: { least: 1 },
    compressionWindowSize: { least: 1 },
    compressionCooldownSec: { least: 0 },
    compressionHardLimit: { least: 1 },
  });
  checkBelow(all, "tailKeepSize", "contextSize");
  return all;
}
