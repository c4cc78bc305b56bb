// The one schema of all settings. It is imported only where there is something to check: zod takes a tenth of a second.
import { z } from "zod";
import { POLICY_NAMES } from "../policies.ts";
import type { SettingsKey } from "./settings.ts";

/** What one setting may be: for checking, and in words for who gave it something else. */
export interface SettingRule {
  schema: z.ZodType;
  allowed: string;
  /** How the text of an environment variable becomes a value; a list is never one. */
  kind: "number" | "boolean" | "text" | "list";
}

const ratio = z.number().gt(0).lt(1);

const count = (least: number, most = Number.MAX_SAFE_INTEGER): SettingRule => ({
  schema: z.int().min(least).max(most),
  allowed: `a whole number ${most === Number.MAX_SAFE_INTEGER ? `from ${least} on` : `from ${least} to ${most}`}`,
  kind: "number",
});

const tokens = (least: number): SettingRule => ({
  schema: z.union([z.int().min(least), ratio]),
  allowed: `a whole number of tokens from ${least} on, or a share of the window between 0 and 1`,
  kind: "number",
});

const percent: SettingRule = {
  schema: z.union([z.int().min(1).max(100), ratio]),
  allowed: "a whole number of percent from 1 to 100, or a share between 0 and 1",
  kind: "number",
};

const yesOrNo: SettingRule = { schema: z.boolean(), allowed: "true or false", kind: "boolean" };

/** What each setting may be. The least values are those of the policies themselves. */
export const SETTING_RULES: Record<SettingsKey, SettingRule> = {
  policy: { schema: z.enum(POLICY_NAMES), allowed: `one of ${POLICY_NAMES.join(", ")}`, kind: "text" },
  autoCompact: yesOrNo,
  contextWindow: count(1_000),
  requestBytes: count(1_000),
  reserveTokens: tokens(1),
  keepRecentTokens: tokens(1),
  summarizer: {
    schema: z.string().regex(/^(extractive|anthropic(:.+)?)$/s),
    allowed: "extractive, anthropic or anthropic:MODEL",
    kind: "text",
  },
  model: { schema: z.string().min(1), allowed: "the name of a model", kind: "text" },
  fallback: yesOrNo,
  extensions: { schema: z.array(z.string().min(1)), allowed: "a list of files", kind: "list" },
  contextSize: count(2),
  tailKeepSize: count(1),
  compressionWindowSize: count(1),
  compressionCooldownSec: count(0),
  compressionHardLimit: count(1),
  maxMessages: count(2),
  keepLast: count(1),
  offloadThreshold: tokens(1),
  offloadMinTokens: tokens(1),
  triggerTokens: tokens(0),
  preserveCount: count(1),
  targetTokens: tokens(256),
  retryCount: count(1, 10),
  maxContextTokens: tokens(100),
  compactionThreshold: percent,
  criticalThreshold: percent,
};

const { policy, summarizer, extensions, ...ofAnyModel } = optional(SETTING_RULES);

/** A settings file as it is understood once its keys are spelt as here; nothing in it is required. */
export const settingsSchema = z.strictObject({
  policy,
  summarizer,
  extensions,
  ...ofAnyModel,
  models: z
    .record(z.string(), z.strictObject(ofAnyModel))
    .optional()
    .describe("What is different for a model, by its id or provider/id."),
});

/** What may differ from model to model. */
export const MODEL_KEYS: ReadonlySet<string> = new Set(Object.keys(ofAnyModel));

/** The same as JSON Schema, for editors. */
export const settingsJsonSchema = (): object => z.toJSONSchema(settingsSchema);

function optional(rules: Record<SettingsKey, SettingRule>) {
  const entries = Object.entries(rules).map(([key, { schema, allowed }]) => [
    key,
    schema.describe(`It is ${allowed}.`).optional(),
  ]);
  return Object.fromEntries(entries) as Record<SettingsKey, z.ZodOptional>;
}
