import { type CompactionSettings, DEFAULT_COMPACTION_SETTINGS } from "@espalier/compaction";
import {
  DEFAULT_MESSAGE_COUNT_SETTINGS,
  DEFAULT_OFFLOAD_SETTINGS,
  DEFAULT_PRESSURE_SETTINGS,
  DEFAULT_SLIDING_WINDOW_SETTINGS,
  type MessageCountSettings,
  type OffloadSettings,
  type PressureSettings,
  type SlidingWindowSettings,
} from "@espalier/compaction/policies";
import { EspalierError } from "@espalier/jsonl-stream";
import { redactText } from "@espalier/session-tree";
import { POLICY_NAMES, type PolicyName } from "../compaction/policies.ts";

/** All settings, resolved: sizes are tokens but for `requestBytes`, thresholds of `pressure` percent. */
export interface Settings
  extends CompactionSettings,
    SlidingWindowSettings,
    MessageCountSettings,
    OffloadSettings,
    PressureSettings {
  /** When to compact and what to keep. Default `token-budget`. */
  policy: PolicyName;
  /** Who writes summaries: `extractive`, `anthropic`, `anthropic:<model>`. Default: whatever can be reached. */
  summarizer?: string;
  /** Whether the extractive summarizer steps in when another one fails. Default: unless one was named for a call. */
  fallback?: boolean;
  /** Files of extensions, besides those that are found. Relative ones begin at the folder of the settings file. Default none. */
  extensions: readonly string[];
}

/** The name of a setting, as files, flags and `espalier config` have it. */
export type SettingsKey = keyof Settings;

/** What holds where nobody says anything: the defaults of all policies in one. */
export const DEFAULT_SETTINGS: Settings = {
  policy: POLICY_NAMES[0]!,
  ...DEFAULT_COMPACTION_SETTINGS,
  ...DEFAULT_SLIDING_WINDOW_SETTINGS,
  ...DEFAULT_MESSAGE_COUNT_SETTINGS,
  ...DEFAULT_OFFLOAD_SETTINGS,
  ...DEFAULT_PRESSURE_SETTINGS,
  extensions: [],
};

/** What a setting decides: which code runs, to whom content is sent, or how often and how much. */
export type SettingEffect = "runs" | "sends" | "spends";

/**
 * What each setting can bring about, whatever the others are. All of them run code, reach a network or spend, so none of
 * a project that nobody trusts counts: a size of its choice makes summaries be asked for at every turn.
 */
export const SETTING_EFFECTS: Readonly<Record<SettingsKey, SettingEffect>> = {
  policy: "spends",
  autoCompact: "spends",
  contextWindow: "spends",
  requestBytes: "spends",
  reserveTokens: "spends",
  keepRecentTokens: "spends",
  summarizer: "sends",
  model: "sends",
  fallback: "spends",
  extensions: "runs",
  contextSize: "spends",
  tailKeepSize: "spends",
  compressionWindowSize: "spends",
  compressionCooldownSec: "spends",
  compressionHardLimit: "spends",
  maxMessages: "spends",
  keepLast: "spends",
  offloadThreshold: "spends",
  offloadMinTokens: "spends",
  triggerTokens: "spends",
  preserveCount: "spends",
  targetTokens: "spends",
  retryCount: "spends",
  maxContextTokens: "spends",
  compactionThreshold: "spends",
  criticalThreshold: "spends",
};

/** Every key, in the order in which people are told of them; some have no default. */
export const SETTINGS_KEYS: readonly SettingsKey[] = [
  "policy",
  "autoCompact",
  "contextWindow",
  "requestBytes",
  "reserveTokens",
  "keepRecentTokens",
  "summarizer",
  "model",
  "fallback",
  "extensions",
  "contextSize",
  "tailKeepSize",
  "compressionWindowSize",
  "compressionCooldownSec",
  "compressionHardLimit",
  "maxMessages",
  "keepLast",
  "offloadThreshold",
  "offloadMinTokens",
  "triggerTokens",
  "preserveCount",
  "targetTokens",
  "retryCount",
  "maxContextTokens",
  "compactionThreshold",
  "criticalThreshold",
];

/** The error for a setting that cannot be used: names the place and the key, and repeats no secret. */
export function settingsError(
  layer: Pick<SettingsLayer, "origin" | "file" | "variables"> | undefined,
  key: string | undefined,
  problem: string,
  cause?: unknown,
): EspalierError {
  return new EspalierError("settings", redactText(`${placeOf(layer, key)}: ${problem}`), {
    ...(cause === undefined ? {} : { cause }),
    ...(key === undefined ? {} : { key: redactText(key) }),
    ...(layer?.file ? { file: layer.file } : {}),
  });
}

function placeOf(layer: Parameters<typeof settingsError>[0], key: string | undefined): string {
  if (layer?.file) return layer.file;
  const variable = key === undefined ? undefined : layer?.variables?.[key];
  if (variable) return `The environment variable ${variable}`;
  return layer?.origin === "flag" ? "The command line" : "The settings";
}

/** Where a value comes from, each above those before it. */
export type SettingsOrigin = "default" | "user" | "project" | "environment" | "flag";

/** What one place says, as it stands there. */
export interface SettingsLayer {
  origin: SettingsOrigin;
  /** The file; null for what is none. */
  file: string | null;
  /** Keys are spelt as in the schema, and may be anything. */
  values: Readonly<Record<string, unknown>>;
  /** The variable that a key was read from, for those of the environment. */
  variables?: Readonly<Record<string, string>>;
}

/** `tail_keep_size` as `tailKeepSize`. In linear time, also for a key of underscores alone. */
export const camelCase = (key: string): string =>
  key.replace(/(?<!_)_+([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
