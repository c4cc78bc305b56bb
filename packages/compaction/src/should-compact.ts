import { type CompactionSettings, thresholdOf } from "./compaction-settings.ts";

/** Whether a context of this size is due for compaction by itself: strictly above the window less the reserve. */
export function shouldCompact(
  contextTokens: number,
  contextWindow: number,
  settings: Pick<CompactionSettings, "autoCompact" | "reserveTokens">,
): boolean {
  return (
    settings.autoCompact &&
    contextTokens > thresholdOf({ contextWindow, reserveTokens: settings.reserveTokens })
  );
}
