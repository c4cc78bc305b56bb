import { type CompactionSettings, DEFAULT_COMPACTION_SETTINGS } from "@espalier/compaction";
import {
  defaultsOf,
  type NumberSetting,
  POLICIES,
  POLICY_NAMES,
  type PolicyName,
  type PolicySettings,
} from "@espalier/compaction/policies";
import { EspalierError } from "@espalier/jsonl-stream";
import { redactText } from "@espalier/session-tree";
import type { TokenPrices } from "@espalier/summarizer";
import type { z as zod } from "zod";
import { type AccessSetting, PROVIDERS, SUMMARIZER_NAME } from "../providers/named.ts";

/**
 * All resolved settings: sizes are tokens except `requestBytes`; thresholds of `pressure` are percent. Keys and addresses
 * of providers are in the user's settings only; default: the provider's environment variables, then its SDK's address.
 */
export interface Settings extends CompactionSettings, PolicySettings, Partial<Record<AccessSetting, string>> {
  /** Policy of compactions. Default `token-budget`. */
  policy: PolicyName;
  /**
   * Author of summaries: `extractive`, `anthropic`, `anthropic:<model>`, `openai:<model>`, `openai-responses:<model>`.
   * Default: the model that answers, where there is one; else Claude if its key is set; else `extractive`.
   */
  summarizer?: string;
  /** Uses the extractive summarizer when another one fails. Default: true, unless a command names a summarizer. */
  fallback?: boolean;
  /** Finds rules in the user's messages. False: only recorded rules are kept over compactions. Default true. */
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
  ...Object.assign({}, ...POLICY_NAMES.map((name) => defaultsOf(POLICIES[name].settings))),
  rules: true,
  extensions: [],
};

/** Effect of a setting: it runs code, sends content, or spends tokens. */
export type SettingEffect = "runs" | "sends" | "spends";

/** Allowed values, effect and description of a setting. */
export interface SettingRule extends Pick<NumberSetting, "share" | "isPercent" | "about"> {
  /** Policy that reads the setting. Default: all of them. */
  policy?: PolicyName;
  /** Effect of the setting. Default: `spends`. */
  effect?: SettingEffect;
  /** Allowed values, as messages describe them. */
  allowed: string;
  /** Schema of the allowed values. */
  schema: (z: typeof zod) => zod.ZodType;
  /** True for a setting that is the same for every model. */
  isGlobal?: true;
}

/** Returns the rule of a whole number; tokens and percents can also be a share. */
function numberRule(setting: NumberSetting): SettingRule {
  const { least, most = Number.MAX_SAFE_INTEGER, share, isPercent } = setting;
  const whole = (z: typeof zod) => z.int().min(least).max(most);
  const range = most === Number.MAX_SAFE_INTEGER ? `from ${least} on` : `from ${least} to ${most}`;
  if (share === undefined && !isPercent)
    return { ...setting, schema: whole, allowed: `a whole number ${range}` };
  const [unit, of] = isPercent ? ["percent", ""] : ["tokens", " of the window"];
  const allowed = `a whole number of ${unit} ${range}, or a share${of} between 0 and 1`;
  return { ...setting, schema: (z) => z.union([whole(z), z.number().gt(0).lt(1)]), allowed };
}

const yesOrNo = { schema: (z: typeof zod) => z.boolean(), allowed: "true or false" };
const access = { effect: "sends", isGlobal: true } as const;
const address = {
  schema: (z: typeof zod) => z.url({ protocol: /^https?$/ }),
  allowed: "an address, http:// or https://",
};
const key = { schema: (z: typeof zod) => z.string().min(1), allowed: "the key of the provider" };
const ofProviders = Object.fromEntries(
  Object.values(PROVIDERS).flatMap((provider) => [
    [provider.address.setting, { ...access, ...address, about: provider.address.about }],
    [provider.key.setting, { ...access, ...key, about: provider.key.about }],
  ]),
) as Record<AccessSetting, SettingRule>;

/** Rules of the policies' settings. `keepRecentTokens` is among the settings of every policy in listings. */
const { keepRecentTokens, ...ofOtherPolicies } = Object.fromEntries(
  POLICY_NAMES.flatMap((policy) =>
    Object.entries(POLICIES[policy].settings).map(([key, one]) => [key, { ...numberRule(one), policy }]),
  ),
) as Record<PolicyKey, SettingRule>;

/** Keys in the tables of the policies. */
type PolicyKey = { [Name in PolicyName]: keyof (typeof POLICIES)[Name]["settings"] }[PolicyName];

/**
 * Every setting, in the order of listings. Each setting runs code, uses a network or costs money, so an untrusted project
 * decides none of them: its choice of a size could request summaries at every turn.
 */
export const SETTINGS: Readonly<Record<SettingsKey, SettingRule>> = {
  policy: {
    about: "when to compact and what to keep; `espalier policies` compares the policies",
    schema: (z) => z.enum(POLICY_NAMES),
    allowed: `one of ${POLICY_NAMES.join(", ")}`,
    isGlobal: true,
  },
  autoCompact: { ...yesOrNo, about: "compact automatically; false: only on request" },
  contextWindow: numberRule({
    least: 1_000,
    about: "context window in tokens, if the model's own is unknown",
  }),
  requestBytes: numberRule({ least: 1_000, about: "largest request, in bytes" }),
  reserveTokens: numberRule({ least: 1, share: 0.5, about: "tokens kept free for the answer" }),
  keepRecentTokens,
  summarizer: {
    about: "writer of summaries",
    schema: (z) => z.string().regex(SUMMARIZER_NAME),
    allowed: "extractive, anthropic, anthropic:MODEL or openai:MODEL",
    effect: "sends",
    isGlobal: true,
  },
  ...ofProviders,
  model: {
    about: "model to ask, as provider/id",
    schema: (z) => z.string().min(1),
    allowed: "the name of a model",
    effect: "sends",
  },
  fallback: { ...yesOrNo, about: "write summaries without a model when the model fails" },
  rules: { ...yesOrNo, about: "keep the user's rules in every compaction" },
  extensions: {
    about: "files of extensions to load",
    schema: (z) => z.array(z.string().min(1)),
    allowed: "a list of files",
    effect: "runs",
    isGlobal: true,
  },
  maxCost: {
    about: "budget of a session with its sub-agents, in US dollars",
    schema: (z) => z.number().gt(0).max(1_000_000),
    allowed: "a number of dollars above 0",
    isGlobal: true,
  },
  prices: {
    about: "your prices of models, in US dollars per million tokens",
    schema(z) {
      const dollars = z.number().min(0).max(1_000_000);
      const others = { cacheRead: dollars.optional(), cacheWrite: dollars.optional() };
      return z.record(z.string().min(1), z.strictObject({ input: dollars, output: dollars, ...others }));
    },
    allowed:
      "a table of input and output, and of cacheRead and cacheWrite where they differ from input, in dollars per million tokens, for each model",
    isGlobal: true,
  },
  ...ofOtherPolicies,
};

/** Every key, in the order of listings; some have no default. */
export const SETTINGS_KEYS = Object.keys(SETTINGS) as readonly SettingsKey[];

/** Effect of each setting, independent of the others, in the order of listings. */
export const SETTING_EFFECTS = Object.fromEntries(
  SETTINGS_KEYS.map((key) => [key, SETTINGS[key].effect ?? "spends"]),
) as Readonly<Record<SettingsKey, SettingEffect>>;

/** Makes the error for an invalid setting: it names the source and the key, and quotes no secret. */
export function settingsError(
  layer: (Omit<SettingsLayer, "values"> & { variable?: string | null }) | undefined,
  key: string | undefined,
  problem: string,
  cause?: unknown,
): EspalierError {
  const variable = layer?.variable ?? layer?.variables?.[key ?? ""];
  const source = layer?.origin === "flag" ? "The command line" : "The settings";
  const place = layer?.file || (variable ? `The environment variable ${variable}` : source);
  return new EspalierError("settings", redactText(`${place}: ${problem}`), {
    ...(cause === undefined ? {} : { cause }),
    ...(key === undefined ? {} : { key: redactText(key) }),
    ...(layer?.file ? { file: layer.file } : {}),
  });
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
