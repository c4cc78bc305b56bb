// Schema of all settings. Import it only when there is something to check: zod takes a tenth of a second to load.
import { z } from "zod";
import { POLICY_NAMES } from "../compaction/policies.ts";
import { type Settings, type SettingsKey, type SettingsLayer, settingsError } from "./settings.ts";

/** Allowed values of a setting: a schema, and a description. */
interface SettingRule {
  schema: z.ZodType;
  allowed: string;
}

const ratio = z.number().gt(0).lt(1);
const dollars = z.number().min(0).max(1_000_000);

const count = (least: number, most = Number.MAX_SAFE_INTEGER): SettingRule => ({
  schema: z.int().min(least).max(most),
  allowed: `a whole number ${most === Number.MAX_SAFE_INTEGER ? `from ${least} on` : `from ${least} to ${most}`}`,
});

const tokens = (least: number): SettingRule => ({
  schema: z.union([z.int().min(least), ratio]),
  allowed: `a whole number of tokens from ${least} on, or a share of the window between 0 and 1`,
});

const percent: SettingRule = {
  schema: z.union([z.int().min(1).max(100), ratio]),
  allowed: "a whole number of percent from 1 to 100, or a share between 0 and 1",
};
const yesOrNo: SettingRule = { schema: z.boolean(), allowed: "true or false" };

const address: SettingRule = {
  schema: z.url({ protocol: /^https?$/ }),
  allowed: "an address, http:// or https://",
};
const key: SettingRule = { schema: z.string().min(1), allowed: "the key of the provider" };

/** Rules by setting. The minimum values are those of the policies themselves. */
const SETTING_RULES: Record<SettingsKey, SettingRule> = {
  policy: { schema: z.enum(POLICY_NAMES), allowed: `one of ${POLICY_NAMES.join(", ")}` },
  autoCompact: yesOrNo,
  contextWindow: count(1_000),
  requestBytes: count(1_000),
  reserveTokens: tokens(1),
  keepRecentTokens: tokens(1),
  summarizer: {
    schema: z.string().regex(/^(extractive|anthropic(:.+)?|openai(-responses)?:.+)$/s),
    allowed: "extractive, anthropic, anthropic:MODEL or openai:MODEL",
  },
  anthropicBaseUrl: address,
  anthropicApiKey: key,
  openaiBaseUrl: address,
  openaiApiKey: key,
  model: { schema: z.string().min(1), allowed: "the name of a model" },
  fallback: yesOrNo,
  rules: yesOrNo,
  extensions: { schema: z.array(z.string().min(1)), allowed: "a list of files" },
  maxCost: { schema: z.number().gt(0).max(1_000_000), allowed: "a number of dollars above 0" },
  prices: {
    schema: z.record(
      z.string().min(1),
      z.strictObject({
        input: dollars,
        output: dollars,
        cacheRead: dollars.optional(),
        cacheWrite: dollars.optional(),
      }),
    ),
    allowed:
      "a table of input and output, and of cacheRead and cacheWrite where they differ from input, in dollars per million tokens, for each model",
  },
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
const every = optional(SETTING_RULES);

/** Settings that can have different values for different models. */
const {
  policy,
  summarizer,
  anthropicBaseUrl,
  anthropicApiKey,
  openaiBaseUrl,
  openaiApiKey,
  extensions,
  maxCost,
  prices,
  ...ofAnyModel
} = every;

/** Schema of a settings file with its keys in camelCase; no key is required. */
const settingsSchema = z.strictObject({
  ...every,
  models: z
    .record(z.string(), z.strictObject(ofAnyModel))
    .optional()
    .describe("What is different for a model, by its id or provider/id."),
});

const MODEL_KEYS: ReadonlySet<string> = new Set(Object.keys(ofAnyModel));

/** Returns the schema as JSON Schema, for editors. */
export const settingsJsonSchema = (): object => z.toJSONSchema(settingsSchema);

function optional(rules: Record<SettingsKey, SettingRule>) {
  const entries = Object.entries(rules).map(([key, { schema, allowed }]) => [
    key,
    schema.describe(`It is ${allowed}.`).optional(),
  ]);
  return Object.fromEntries(entries) as Record<SettingsKey, z.ZodOptional>;
}

/** Settings of one source after the check; sizes can still be shares of the window. */
export interface CheckedSettings extends Partial<Settings> {
  models?: Readonly<Record<string, Partial<Settings>>>;
}

/**
 * Checks the values of a layer; texts of the environment are converted to values.
 *
 * @throws EspalierError `settings`, with the source, the key and the allowed values
 */
export function checkedLayer(layer: SettingsLayer): CheckedSettings {
  const values = layer.variables ? fromTexts(layer.values) : layer.values;
  const { success, data, error } = settingsSchema.safeParse(values);
  if (success) return data as CheckedSettings;
  const [issue] = error.issues;
  const path = [
    ...(issue?.path ?? []),
    ...(issue?.code === "unrecognized_keys" ? issue.keys.slice(0, 1) : []),
  ];
  throw problemAt(layer, values, path.map(String));
}

const BOOLEANS = new Map([
  ["true", true],
  ["1", true],
  ["false", false],
  ["0", false],
]);

/**
 * Converts the texts of the environment: each becomes the first of text, number and boolean that its setting allows.
 */
function fromTexts(values: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const entries = Object.entries(values).map(([key, value]) => {
    const text = String(value);
    const candidates = [text, Number(text), BOOLEANS.get(text.toLowerCase())];
    const allowed = candidates.find((candidate) => ruleOf(key)?.schema.safeParse(candidate).success);
    return [key, allowed ?? (Number.isNaN(candidates[1]) ? text : candidates[1])];
  });
  return Object.fromEntries(entries);
}

/** Maximum number of characters of a value, as JSON, that a message quotes; no key has fewer than 16. */
const LONGEST_SHOWN = 17;

function problemAt(layer: SettingsLayer, values: Readonly<Record<string, unknown>>, path: readonly string[]) {
  const key = path.find((part) => ruleOf(part)) ?? path.at(-1) ?? "";
  const ofModel = path[0] === "models" && path[1] !== undefined;
  const of = ofModel ? ` of the model ${path[1]}` : "";
  const rule = ruleOf(key);
  if (path[0] === "models" && path.length < 3)
    return settingsError(layer, "models", `models${of} is a table of settings, by the name of a model.`);
  if (ofModel && !MODEL_KEYS.has(key))
    return settingsError(
      layer,
      key,
      `${key} cannot differ from model to model; known here are ${[...MODEL_KEYS].join(", ")}.`,
    );
  if (!rule)
    return settingsError(
      layer,
      key,
      `there is no setting ${key}; known are ${Object.keys(settingsSchema.shape).join(", ")}.`,
    );
  const written = JSON.stringify(valueAt(values, path));
  if (written === undefined)
    return settingsError(layer, key, `${key}${of} lacks ${path.at(-1)}; give it ${rule.allowed}.`);
  // A long value may be a key of an unknown form: it is not quoted.
  const given = written.length > LONGEST_SHOWN ? `a value of ${written.length} characters` : written;
  return settingsError(layer, key, `${key}${of} is ${given}; give it ${rule.allowed}.`);
}

function valueAt(values: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>(
    (value, part) => (value as Record<string, unknown> | undefined)?.[part],
    values,
  );
}

function ruleOf(key: string): SettingRule | undefined {
  return Object.hasOwn(SETTING_RULES, key) ? SETTING_RULES[key as keyof Settings] : undefined;
}
