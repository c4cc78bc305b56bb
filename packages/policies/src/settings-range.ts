import { PolicyError } from "./policy-error.ts";

/** The whole numbers a setting may have, ends included. */
export interface SettingsRange {
  least: number;
  most?: number;
}

/** Throws for the first setting that is no whole number or out of its range; what is undefined is not judged. */
export function checkRanges<Settings extends object>(
  settings: Settings,
  ranges: Partial<Record<keyof Settings & string, SettingsRange>>,
): void {
  for (const [key, range] of Object.entries(ranges) as [keyof Settings & string, SettingsRange][]) {
    const value: unknown = settings[key];
    const { least, most = Number.POSITIVE_INFINITY } = range;
    if (value === undefined) continue;
    if (typeof value === "number" && Number.isInteger(value) && value >= least && value <= most) continue;
    const allowed = Number.isFinite(most) ? `from ${least} to ${most}` : `from ${least} on`;
    const message = `The setting ${key} is ${JSON.stringify(value) ?? String(value)}; give it a whole number ${allowed}.`;
    throw new PolicyError("settings", message, { keys: [key] });
  }
}

/** Throws unless the setting `smaller` is below `larger`; the message names both. */
export function checkBelow<Settings extends object>(
  settings: Settings,
  smaller: keyof Settings & string,
  larger: keyof Settings & string,
): void {
  if (Number(settings[smaller]) < Number(settings[larger])) return;
  const message = `The setting ${smaller} (${settings[smaller]}) must be below ${larger} (${settings[larger]}); lower the first or raise the second.`;
  throw new PolicyError("settings", message, { keys: [smaller, larger] });
}
