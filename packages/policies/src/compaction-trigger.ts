import { DEFAULT_PRESSURE_SETTINGS, type PressureSettings } from "./pressure-settings.ts";

/** How much a context presses. */
export type PressureLevel = "NONE" | "WARNING" | "CRITICAL";

/** Detects thresholds (origins 004). */
export const CompactionTrigger = {
  /** The level of so many tokens; a threshold that is reached counts. */
  checkLevel(tokens: number, settings: Partial<PressureSettings> = {}): PressureLevel {
    const { maxContextTokens, compactionThreshold, criticalThreshold } = {
      ...DEFAULT_PRESSURE_SETTINGS,
      ...settings,
    };
    const reaches = (percent: number) => tokens * 100 >= percent * maxContextTokens;
    if (!reaches(compactionThreshold)) return "NONE";
    return reaches(criticalThreshold) ? "CRITICAL" : "WARNING";
  },
} as const;
