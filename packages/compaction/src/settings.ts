import { EspalierError } from "@espalier/jsonl-stream";

/** Settings of compaction. All sizes but `requestBytes` are tokens. */
export interface CompactionSettings {
  /** False: no automatic compaction; commands still compact, and an overflow is a typed error. Default true. */
  autoCompact: boolean;
  /** Tokens reserved for the answer: compaction is due above `contextWindow − reserveTokens`. Default 16,384. */
  reserveTokens: number;
  /** Size of the newest part of the conversation that is kept. Default 20,000 (origins 002). */
  keepRecentTokens: number;
  /** The model's window. Default 200,000 when it is unknown. */
  contextWindow: number;
  /**
   * Maximum number of bytes of a request body, with images as base64. Default 32,000,000: the limit of Anthropic's
   * Messages API (its documentation of errors, `request_too_large`). Set less for clouds and proxies with a lower
   * limit.
   */
  requestBytes: number;
}

/** Default settings, for a model with a window of 200,000 tokens. */
export const DEFAULT_COMPACTION_SETTINGS: CompactionSettings = {
  autoCompact: true,
  reserveTokens: 16_384,
  keepRecentTokens: 20_000,
  contextWindow: 200_000,
  requestBytes: 32_000_000,
};

/**
 * Returns given settings without undefined ones, which have their defaults. Throws EspalierError `settings` for a size
 * that is not a number from 0 on, and for an `autoCompact` that is not true or false.
 */
export function checkCompaction(settings: Partial<CompactionSettings> = {}): Partial<CompactionSettings> {
  const given = Object.entries(settings).filter(([, value]) => value !== undefined);
  for (const [key, value] of given) {
    const usual = DEFAULT_COMPACTION_SETTINGS[key as keyof CompactionSettings];
    if (usual === undefined) continue;
    if (typeof value === typeof usual && (typeof value === "boolean" || value >= 0)) continue;
    const wanted = typeof usual === "boolean" ? "true or false" : "a number from 0 on";
    const shown = typeof value === "number" ? value : JSON.stringify(value);
    const message = `The setting ${key} is ${shown}; give it ${wanted}.`;
    throw new EspalierError("settings", message, { keys: [key] });
  }
  return Object.fromEntries(given);
}

/** Share of a small window for the context when the reserve, made for a larger model, exceeds that window. */
const SHARE_WITHOUT_RESERVE = 0.5;

/**
 * Returns the size above which a context is too large: the window less the reserve. When the reserve is not smaller
 * than the window, half of the window.
 */
export function thresholdOf({
  contextWindow,
  reserveTokens,
}: Pick<CompactionSettings, "contextWindow" | "reserveTokens">): number {
  return reserveTokens < contextWindow
    ? contextWindow - reserveTokens
    : Math.floor(contextWindow * SHARE_WITHOUT_RESERVE);
}

/** A number that a policy reads from the settings. */
export interface NumberSetting {
  /** Default: none, and the policy decides. */
  default?: number;
  /** Smallest allowed value. */
  least: number;
  /** Largest allowed value. Default: no limit. */
  most?: number;
  /**
   * For a size in tokens that must be below the window, and may be given as a share of it. A default that exceeds a
   * small window is replaced by this share.
   */
  share?: number;
  /** True for percents, which may be given as a share. */
  isPercent?: true;
  /** Short description for `espalier config`. */
  about: string;
}

/** Settings of a policy by name, in the order of listings. No two policies have a setting of the same name. */
export type SettingsTable = Readonly<Record<string, NumberSetting>>;

/** Values of a table's settings; one without a default can be undefined. */
export type SettingsOf<Table extends SettingsTable> = {
  [Key in keyof Table]: Table[Key] extends { default: number } ? number : number | undefined;
};

/** Returns the defaults of a table. */
export function defaultsOf<Table extends SettingsTable>(table: Table): SettingsOf<Table> {
  const defaults = Object.entries(table).map(([key, setting]) => [key, setting.default]);
  return Object.fromEntries(defaults.filter(([, value]) => value !== undefined));
}

/**
 * Returns the settings with defaults filled in, also for undefined. Throws EspalierError `settings` for the first one
 * that is not a whole number or is out of its range.
 */
export function checkSettings<Table extends SettingsTable>(
  table: Table,
  settings: Partial<SettingsOf<Table>> = {},
): SettingsOf<Table> {
  const given = Object.entries(settings).filter(([, value]) => value !== undefined);
  const all: SettingsOf<Table> = { ...defaultsOf(table), ...Object.fromEntries(given) };
  for (const [key, { least, most = Number.POSITIVE_INFINITY }] of Object.entries(table)) {
    const value: unknown = all[key];
    if (value === undefined) continue;
    if (typeof value === "number" && Number.isInteger(value) && value >= least && value <= most) continue;
    const allowed = Number.isFinite(most) ? `from ${least} to ${most}` : `from ${least} on`;
    const message = `The setting ${key} is ${JSON.stringify(value) ?? String(value)}; give it a whole number ${allowed}.`;
    throw new EspalierError("settings", message, { keys: [key] });
  }
  return all;
}

/**
 * Returns the settings. Throws EspalierError `settings` unless the setting `smaller` is below `larger`; the message
 * names both.
 */
export function checkBelow<Settings extends object>(
  settings: Settings,
  smaller: keyof Settings & string,
  larger: keyof Settings & string,
): Settings {
  if (Number(settings[smaller]) < Number(settings[larger])) return settings;
  const message = `The setting ${smaller} (${settings[smaller]}) must be below ${larger} (${settings[larger]}); lower the first or raise the second.`;
  throw new EspalierError("settings", message, { keys: [smaller, larger] });
}
