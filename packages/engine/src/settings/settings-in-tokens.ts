import type { Settings, SettingsKey } from "./settings.ts";
import { settingsError } from "./settings-error.ts";
import type { SettingsLayer } from "./settings-layer.ts";

/** A value with the place that it comes from. */
export interface PlacedValue {
  value: unknown;
  layer: SettingsLayer;
}

/** Sizes that are judged against the window, and may be given as a share of it. */
const SIZES = [
  "reserveTokens",
  "keepRecentTokens",
  "offloadThreshold",
  "offloadMinTokens",
  "triggerTokens",
  "targetTokens",
  "maxContextTokens",
] as const satisfies readonly SettingsKey[];

const PERCENTS = ["compactionThreshold", "criticalThreshold"] as const satisfies readonly SettingsKey[];

/** What a default that a small window does not hold becomes: this share of that window. */
const SHARE_OF_A_SMALL_WINDOW: Readonly<Record<(typeof SIZES)[number], number>> = {
  reserveTokens: 0.5,
  keepRecentTokens: 0.1,
  offloadThreshold: 0.5,
  offloadMinTokens: 0.1,
  triggerTokens: 0.1,
  targetTokens: 0.3,
  maxContextTokens: 1,
};

/**
 * Shares become tokens and percents; every size is then below the window. A default that a small window does not hold
 * shrinks with it, a size that somebody wrote is never changed.
 *
 * @throws EngineError `settings` for such a size, naming the model
 */
export function settingsInTokens(
  placed: ReadonlyMap<SettingsKey, PlacedValue>,
  modelId: string | undefined,
): Map<SettingsKey, PlacedValue> {
  const resolved = new Map(placed);
  const window = Number(placed.get("contextWindow")?.value);
  for (const key of SIZES) {
    const { value, layer } = placed.get(key) ?? {};
    if (typeof value !== "number" || !layer) continue;
    resolved.set(key, { value: sizeOf(key, value, { layer, window, modelId }), layer });
  }
  for (const key of PERCENTS) {
    const { value, layer } = placed.get(key) ?? {};
    if (typeof value === "number" && layer && value < 1)
      resolved.set(key, { value: Math.max(1, Math.round(value * 100)), layer });
  }
  return resolved;
}

function sizeOf(
  key: (typeof SIZES)[number],
  value: number,
  { layer, window, modelId }: { layer: SettingsLayer; window: number; modelId: string | undefined },
): number {
  if (value > 0 && value < 1) return Math.max(1, Math.floor(value * window));
  // The size that counts as full may be all of the window; what is kept free or kept apart may not.
  if (value < window || (key === "maxContextTokens" && value === window)) return value;
  if (layer.origin === "default") return Math.floor(window * SHARE_OF_A_SMALL_WINDOW[key]);
  const whose = modelId === undefined ? "the model's window" : `the window of ${modelId}`;
  const under = modelId === undefined ? "models" : `models, ${modelId}`;
  throw settingsError(
    layer,
    key,
    `${key} is ${value}, and ${whose} is ${window} tokens; give it more than 0 and less than that, a share between 0 and 1, or a value of its own under ${under}.`,
  );
}

/** The values alone; what nobody says is not there. */
export const valuesOf = (placed: ReadonlyMap<SettingsKey, PlacedValue>): Settings =>
  Object.fromEntries([...placed].map(([key, { value }]) => [key, value])) as unknown as Settings;
