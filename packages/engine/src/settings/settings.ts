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
} from "@espalier/policies";
import { POLICY_NAMES, type PolicyName } from "../policies.ts";

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
