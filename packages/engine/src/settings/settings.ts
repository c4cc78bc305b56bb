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
import type { TokenPrices } from "@espalier/summarizer";
import { POLICY_NAMES, type PolicyName } from "../compaction/policies.ts";

/** All resolved settings: sizes are tokens except `requestBytes`; thresholds of `pressure` are percent. */
export interface Settings
  extends CompactionSettings,
    SlidingWindowSettings,
    MessageCountSettings,
    OffloadSettings,
    PressureSettings {
  /** Policy of compactions. Default `token-budget`. */
  policy: PolicyName;
  /**
   * Author of summaries: `extractive`, `anthropic`, `anthropic:<model>`, `openai:<model>`. Default: the first available
   * one.
   */
  summarizer?: string;
  /** Address of Claude, in the user's settings only. Default: `ANTHROPIC_BASE_URL`, else Anthropic's own. */
  anthropicBaseUrl?: string;
  /** Key of Claude, in the user's settings only. Default: `ANTHROPIC_API_KEY`. */
  anthropicApiKey?: string;
  /**
   * Address of a server with OpenAI's API, in the user's settings only. Default: `OPENAI_BASE_URL`, else OpenAI's own.
   */
  openaiBaseUrl?: string;
  /** Key of that server, in the user's settings only. Default: `OPENAI_API_KEY`. */
  openaiApiKey?: string;
  /** Uses the extractive summarizer when another one fails. Default: yes, unless a call names a summarizer. */
  fallback?: boolean;
  /** Keeps the user's rules over compactions. Default true. */
  rules: boolean;
  /**
   * Files of extensions, in addition to discovered ones, relative to the folder of the settings file. Default: none.
   */
  extensions: readonly string[];
  /** Budget of a session in US dollars: a request that would exceed it is refused. Default: no budget. */
  maxCost?: number;
  /**
   * Prices by `provider/model` or model, which override the known ones, in US dollars per million tokens. Default:
   * none.
   */
  prices?: Readonly<Record<string, TokenPrices>>;
}

/** Name of a setting in files, flags and `espalier config`. */
export type SettingsKey = keyof Settings;

/** Defaults of all policies together. */
export const DEFAULT_SETTINGS: Settings = {
  policy: POLICY_NAMES[0]!,
  ...DEFAULT_COMPACTION_SETTINGS,
  ...DEFAULT_SLIDING_WINDOW_SETTINGS,
  ...DEFAULT_MESSAGE_COUNT_SETTINGS,
  ...DEFAULT_OFFLOAD_SETTINGS,
  ...DEFAULT_PRESSURE_SETTINGS,
  rules: true,
  extensions: [],
};

/** Effect of a setting: it runs code, sends content, or spends tokens. */
export type SettingEffect = "runs" | "sends" | "spends";

/**
 * Effect of each setting, independent of the others, in the order of listings. Each of them runs code, uses a network
 * or costs money, so an untrusted project decides none of them: its choice of a size could request summaries at every
 * turn.
 */
export const SETTING_EFFECTS: Readonly<Record<SettingsKey, SettingEffect>> = {
  policy: "spends",
  autoCompact: "spends",
  contextWindow: "spends",
  requestBytes: "spends",
  reserveTokens: "spends",
  keepRecentTokens: "spends",
  summarizer: "sends",
  anthropicBaseUrl: "sends",
  anthropicApiKey: "sends",
  openaiBaseUrl: "sends",
  openaiApiKey: "sends",
  model: "sends",
  fallback: "spends",
  rules: "spends",
  extensions: "runs",
  maxCost: "spends",
  prices: "spends",
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

/** Every key, in the order of listings; some have no default. */
export const SETTINGS_KEYS = Object.keys(SETTING_EFFECTS) as readonly SettingsKey[];

/** Makes the error for an invalid setting: it names the source and the key, and quotes no secret. */
export function settingsError(
  layer: (Omit<SettingsLayer, "values"> & { variable?: string | null }) | undefined,
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

function placeOf(layer: Parameters<typeof settingsError>[0], key = ""): string {
  if (layer?.file) return layer.file;
  const variable = layer?.variable ?? layer?.variables?.[key];
  if (variable) return `The environment variable ${variable}`;
  return layer?.origin === "flag" ? "The command line" : "The settings";
}

/** Source of a value; later ones override earlier ones. */
export type SettingsOrigin = "default" | "user" | "project" | "environment" | "flag";

/** Settings of one source, unchecked. */
export interface SettingsLayer {
  origin: SettingsOrigin;
  /** Settings file; null for another source. */
  file: string | null;
  /** Values by key, in the schema's spelling; any key may occur. */
  values: Readonly<Record<string, unknown>>;
  /** Variable from which a key was read, for those of the environment. */
  variables?: Readonly<Record<string, string>>;
}

/** Converts `tail_keep_size` to `tailKeepSize`. In linear time, also for a key of underscores only. */
export const camelCase = (key: string): string =>
  key.replace(/(?<!_)_+([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
