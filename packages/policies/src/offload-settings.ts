import { checkRanges } from "./settings-range.ts";

/** When results move to files, and what follows where that is not enough (origins 003). All sizes are tokens. */
export interface OffloadSettings {
  /** A context above this has results moved out. Default, and the most: the size above which the model's window leaves no reserve. */
  offloadThreshold?: number;
  /** Smaller results stay. Default 1,000. */
  offloadMinTokens: number;
  /** Moving out less than this, while the context stays above the threshold, makes a compaction due. Default 15,000. */
  triggerTokens: number;
  /** The newest messages, which a compaction keeps. Default 5. */
  preserveCount: number;
  /** How long the summary shall be; it may have 1.2 times as many. Default 8,000. */
  targetTokens: number;
  /** The model that summarises; default: the session's. */
  model?: string;
  /** How often a summary is asked for in all. Default 3. */
  retryCount: number;
}

/** The numbers of origins 003, in tokens; `offloadMinTokens` it leaves open. */
export const DEFAULT_OFFLOAD_SETTINGS: OffloadSettings = {
  offloadMinTokens: 1_000,
  triggerTokens: 15_000,
  preserveCount: 5,
  targetTokens: 8_000,
  retryCount: 3,
};

/** How much longer than its target a summary may be before it is cut off (origins 003: 20 % of room). */
export const OUTPUT_MARGIN = 1.2;

/**
 * The settings with defaults filled in.
 * @throws PolicyError `settings`, naming the key
 */
export function checkOffloadSettings(settings: Partial<OffloadSettings> = {}): OffloadSettings {
  const all = { ...DEFAULT_OFFLOAD_SETTINGS, ...settings };
  checkRanges(all, {
    offloadThreshold: { least: 1 },
    offloadMinTokens: { least: 1 },
    triggerTokens: { least: 0 },
    preserveCount: { least: 1 },
    targetTokens: { least: 256 },
    retryCount: { least: 1, most: 10 },
  });
  return all;
}
