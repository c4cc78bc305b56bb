import { checkRanges } from "./settings-range.ts";

/** When a context is pruned (origins 004). */
export interface PressureSettings {
  /** The size that counts as full, in tokens; never more than the model's window less `reserveTokens`. Default 8,000. */
  maxContextTokens: number;
  /** From this many percent of it on, pruning is due. Default 75. */
  compactionThreshold: number;
  /** From this many percent on, more is pruned. Default 90. */
  criticalThreshold: number;
}

/** The numbers of origins 004: tokens, and percent of them. */
export const DEFAULT_PRESSURE_SETTINGS: PressureSettings = {
  maxContextTokens: 8_000,
  compactionThreshold: 75,
  criticalThreshold: 90,
};

/** To how many percent a context is pruned, by level (origins 004). */
const TARGET_PERCENT = { NONE: 70, WARNING: 70, CRITICAL: 60 } as const;

/** How far below its threshold a context is pruned at least, in percent, so that the next message is not due again. */
const LEAST_RELIEF = 5;

/** To how many tokens a context is pruned. */
export function pruneTarget(
  level: keyof typeof TARGET_PERCENT,
  { maxContextTokens, compactionThreshold }: PressureSettings,
): number {
  const percent = Math.min(TARGET_PERCENT[level], Math.max(1, compactionThreshold - LEAST_RELIEF));
  return Math.floor((maxContextTokens * percent) / 100);
}

/**
 * The settings with defaults filled in.
 * @throws PolicyError `settings`, naming the key
 */
export function checkPressureSettings(settings: Partial<PressureSettings> = {}): PressureSettings {
  const all = { ...DEFAULT_PRESSURE_SETTINGS, ...settings };
  checkRanges(all, {
    maxContextTokens: { least: 100 },
    compactionThreshold: { least: 1, most: 100 },
    criticalThreshold: { least: 1, most: 100 },
  });
  return all;
}
