import { resolve } from "node:path";
import { POLICY_NAMES, resolvePolicy } from "@espalier/compaction/policies";
import { EspalierError } from "@espalier/jsonl-stream";
import type { z as zod } from "zod";
import { espalierHome } from "./home.ts";
import {
  camelCase,
  DEFAULT_SETTINGS,
  SETTING_EFFECTS,
  SETTINGS,
  SETTINGS_KEYS,
  type SettingEffect,
  type Settings,
  type SettingsKey,
  type SettingsLayer,
  type SettingsOrigin,
  settingsError,
} from "./settings.ts";
import { readSettingsFile, settingsFilesIn } from "./settings-file.ts";
import { type ConfirmTrust, changedSentence, openTrust, someOf, type TrustStore } from "./trust.ts";

/** Sources of settings. */
export interface SettingsSources {
  /** Folder used as `~/.espalier`. Default: `ESPALIER_HOME`, else `~/.espalier`. */
  home?: string;
  /** Folder of the project, with its settings in `.espalier`. Default: the process's working folder. */
  cwd?: string;
  /** Environment variables. Default: the process's. */
  env?: NodeJS.ProcessEnv;
  /** Settings of the command line, which override all others. */
  flags?: Partial<Settings>;
  /** Current model, whose specific settings apply; the function is called only when a model has specific settings. */
  model?: string | (() => string | undefined);
  /** Called when the project changed since it was trusted. Default: its settings are ignored. */
  confirmTrust?: ConfirmTrust;
}

/** Origin of one setting. */
export interface SettingOrigin {
  key: SettingsKey;
  /** Value; null for a setting without value and default. */
  value: unknown;
  origin: SettingsOrigin;
  /** Settings file of the value; null for another source. */
  file: string | null;
  /** Environment variable of the value; null for another source. */
  variable: string | null;
}

/** A setting of a project that is ignored because the project is not trusted, or changed since. */
export interface LeftOutSetting {
  key: SettingsKey;
  file: string;
  effect: SettingEffect;
}

/** The current settings, each with its origin. */
export interface ResolvedSettings {
  values: Settings;
  /** Origin of each setting, in the order of listings. */
  origins: SettingOrigin[];
  /** A sentence for each ignored file, with the cure. */
  ignored: string[];
  /** Ignored settings, in the order of listings. */
  leftOut: LeftOutSetting[];
}

/**
 * Resolves the current settings: defaults < user file < project file < environment < flags; in each file, settings of
 * the current model override the others. Reads files; writes only the trust of a project that `confirmTrust` confirms.
 *
 * @throws EspalierError `settings`, with the file or the variable, the key and the allowed values; `bad-input`,
 * `write-failed` of the trust store
 */
export async function resolveSettings(sources: SettingsSources = {}): Promise<ResolvedSettings> {
  const { cwd = process.cwd(), env = process.env, home = espalierHome(env), flags = {}, model } = sources;
  const user = await readSettingsFile(home, "user");
  const folder = resolve(cwd, ".espalier");
  // When the working folder is that of the home, the user's file is not also the project's.
  const isOwn = folder === resolve(home) || settingsFilesIn(folder).length === 0;
  const project = isOwn ? NO_PROJECT : await readProject(folder, cwd, openTrust(home), sources.confirmTrust);
  const layers = [
    user,
    project.layer,
    readEnvironment(env),
    { origin: "flag" as const, file: null, values: { ...flags } },
  ].filter((layer) => layer !== undefined && Object.keys(layer.values).length > 0) as SettingsLayer[];
  const placed: PlacedSettings = new Map();
  put(placed, DEFAULT_SETTINGS, { origin: "default", file: null, values: {} });
  let modelId = typeof model === "string" ? model : undefined;
  for (const [layer, { models, ...values }] of await checkedLayers(layers)) {
    put(placed, values, layer);
    if (models && typeof model === "function") modelId ??= model();
    if (models && modelId !== undefined) put(placed, ownOf(models, modelId), layer);
  }
  settingsInTokens(placed, modelId);
  // Settings without a value are left out.
  const values = Object.fromEntries(
    [...placed].map(([key, { value }]) => [key, value]),
  ) as unknown as Settings;
  checkTogether(values, placed);
  const unset = { value: null, origin: "default", file: null, variable: null } as const;
  const origins = SETTINGS_KEYS.map((key) => placed.get(key) ?? { key, ...unset });
  return { values, origins, ignored: project.ignored, leftOut: project.leftOut };
}

/** Settings that have a value, each with its origin. */
type PlacedSettings = Map<SettingsKey, SettingOrigin>;

interface ProjectSettings extends Pick<ResolvedSettings, "ignored" | "leftOut"> {
  /** Layer of the project; undefined when it is ignored. */
  layer: SettingsLayer | undefined;
}

const NO_PROJECT: ProjectSettings = { layer: undefined, ignored: [], leftOut: [] };

/**
 * Reads the settings of a project, which apply if it is trusted and unchanged. Of another project only the names of
 * settings are read.
 */
async function readProject(
  folder: string,
  cwd: string,
  trust: TrustStore,
  confirmTrust: ConfirmTrust | undefined,
): Promise<ProjectSettings> {
  const project = trust.look(cwd);
  const isConfirmed = project.state === "changed" && ((await confirmTrust?.(project)) ?? false);
  if (isConfirmed) await trust.trust(cwd);
  if (isConfirmed || project.state === "trusted")
    return { ...NO_PROJECT, layer: await readSettingsFile(folder, "project") };
  const [file = folder] = settingsFilesIn(folder);
  const keys = await keysIn(folder);
  const leftOut = SETTINGS_KEYS.filter((key) => keys.has(key)).map((key) => ({
    key,
    file,
    effect: SETTING_EFFECTS[key],
  }));
  const named = leftOut.length > 0 ? ` (${someOf(leftOut.map(({ key }) => key))})` : "";
  const sentence =
    project.state === "changed"
      ? changedSentence(project)
      : `${file}: its settings${named} apply only after \`espalier trust\` in ${cwd}.`;
  return { layer: undefined, ignored: [sentence], leftOut };
}

/** Returns the keys of an untrusted file, for a model or for all; none when it cannot be read. */
async function keysIn(folder: string): Promise<ReadonlySet<string>> {
  try {
    const { models, ...values } = (await readSettingsFile(folder, "project"))?.values ?? {};
    const ofModels = Object.values(models ?? {}).flatMap((own) => Object.keys(own ?? {}));
    return new Set([...Object.keys(values), ...ofModels]);
  } catch (error) {
    // The error is reported when the project is trusted.
    if (error instanceof EspalierError) return new Set();
    throw error;
  }
}

/** Settings of one source after the check; sizes can still be shares of the window. */
interface CheckedSettings extends Partial<Settings> {
  models?: Readonly<Record<string, Partial<Settings>>>;
}

/** Schema of a settings file. Made once, because that takes milliseconds. */
let settingsSchema: ReturnType<typeof makeSchema> | undefined;

/** Makes the schema of a settings file with its keys in camelCase; no key is required. */
function makeSchema(z: typeof zod) {
  const schemaOf = (keys: readonly SettingsKey[]) =>
    Object.fromEntries(
      keys.map((key) => {
        const { schema, allowed } = SETTINGS[key];
        return [key, schema(z).describe(`It is ${allowed}.`).optional()];
      }),
    );
  return z.strictObject({
    ...schemaOf(SETTINGS_KEYS),
    models: z
      .record(z.string(), z.strictObject(schemaOf(MODEL_KEYS)))
      .optional()
      .describe("What is different for a model, by its id or provider/id."),
  });
}

/** Settings that can have different values for different models. */
const MODEL_KEYS = SETTINGS_KEYS.filter((key) => !SETTINGS[key].isGlobal);

/**
 * Returns the JSON Schema of a settings file, for editors; keys are also accepted in snake_case, and below `behavior`.
 */
export async function settingsJsonSchema(): Promise<object> {
  const { z } = await import("zod");
  settingsSchema ??= makeSchema(z);
  return z.toJSONSchema(settingsSchema);
}

/**
 * Checks the values of layers; texts of the environment are converted to values.
 *
 * @throws EspalierError `settings`, with the source, the key and the allowed values
 */
async function checkedLayers(layers: readonly SettingsLayer[]): Promise<[SettingsLayer, CheckedSettings][]> {
  if (layers.length === 0) return [];
  // The schema library is loaded only for values to check, because loading takes a tenth of a second.
  const { z } = await import("zod");
  settingsSchema ??= makeSchema(z);
  const schema = settingsSchema;
  return layers.map((layer) => {
    const values = layer.variables ? fromTexts(layer.values, schema.shape) : layer.values;
    const { success, data, error } = schema.safeParse(values);
    if (success) return [layer, data as CheckedSettings];
    const [issue] = error.issues;
    const unknown = issue?.code === "unrecognized_keys" ? issue.keys.slice(0, 1) : [];
    throw problemAt(layer, values, [...(issue?.path ?? []), ...unknown].map(String));
  });
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
function fromTexts(
  values: Readonly<Record<string, unknown>>,
  shape: Readonly<Record<string, zod.ZodType>>,
): Record<string, unknown> {
  const entries = Object.entries(values).map(([key, value]) => {
    const text = String(value);
    const candidates = [text, Number(text), BOOLEANS.get(text.toLowerCase())];
    const allowed = candidates.find((candidate) => ruleOf(key) && shape[key]?.safeParse(candidate).success);
    return [key, allowed ?? (Number.isNaN(candidates[1]) ? text : candidates[1])];
  });
  return Object.fromEntries(entries);
}

/** Maximum number of characters of a value, as JSON, that a message quotes; no key has fewer than 16. */
const LONGEST_SHOWN = 17;

function problemAt(layer: SettingsLayer, values: Readonly<Record<string, unknown>>, path: readonly string[]) {
  const key = path.find((part) => ruleOf(part)) ?? path.at(-1) ?? "";
  const problem = (said: string) => settingsError(layer, key, said);
  const ofModel = path[0] === "models" && path[1] !== undefined;
  const of = ofModel ? ` of the model ${path[1]}` : "";
  const rule = ruleOf(key);
  if (path[0] === "models" && path.length < 3)
    return settingsError(layer, "models", `models${of} is a table of settings, by the name of a model.`);
  if (ofModel && !MODEL_KEYS.some((one) => one === key))
    return problem(`${key} cannot differ from model to model; known here are ${MODEL_KEYS.join(", ")}.`);
  if (!rule)
    return problem(`there is no setting ${key}; known are ${[...SETTINGS_KEYS, "models"].join(", ")}.`);
  const written = JSON.stringify(
    path.reduce<unknown>((value, part) => (value as Record<string, unknown> | undefined)?.[part], values),
  );
  if (written === undefined) return problem(`${key}${of} lacks ${path.at(-1)}; give it ${rule.allowed}.`);
  // A long value may be a key of an unknown form: it is not quoted.
  const given = written.length > LONGEST_SHOWN ? `a value of ${written.length} characters` : written;
  return problem(`${key}${of} is ${given}; give it ${rule.allowed}.`);
}

const ruleOf = (key: string) => (Object.hasOwn(SETTINGS, key) ? SETTINGS[key as SettingsKey] : undefined);

function put(
  placed: PlacedSettings,
  values: Partial<Settings>,
  { origin, file, variables }: SettingsLayer,
): void {
  for (const [name, value] of Object.entries(values)) {
    const key = name as SettingsKey;
    if (value !== undefined)
      placed.set(key, { key, value, origin, file, variable: variables?.[key] ?? null });
  }
}

/** Returns the settings for one model: under its id, or under `provider/id`, which overrides it. */
function ownOf(models: NonNullable<CheckedSettings["models"]>, modelId: string): Partial<Settings> {
  const id = modelId.slice(modelId.indexOf("/") + 1);
  return {
    ...(Object.hasOwn(models, id) ? models[id] : {}),
    ...(Object.hasOwn(models, modelId) ? models[modelId] : {}),
  };
}

/** Checks settings that depend on each other. Throws `settings` for the first pair that does not fit together. */
function checkTogether(values: Settings, placed: PlacedSettings): void {
  for (const name of POLICY_NAMES) {
    try {
      resolvePolicy(name, values);
    } catch (error) {
      if (!(error instanceof EspalierError)) throw error;
      const key = error.keys?.find((named) => placed.get(named as SettingsKey)?.origin !== "default");
      throw settingsError(placed.get(key as SettingsKey), key, error.message, error);
    }
  }
}

/**
 * Converts shares to tokens and percents, and checks that every size is below the window. Defaults shrink for a small
 * window; configured sizes never change.
 *
 * @throws EspalierError `settings` for a size that exceeds the window, with the model
 */
function settingsInTokens(placed: PlacedSettings, modelId: string | undefined): void {
  const window = Number(placed.get("contextWindow")?.value);
  for (const setting of placed.values()) {
    const { key, value, origin } = setting;
    const { share, isPercent } = SETTINGS[key];
    if (typeof value !== "number" || (share === undefined && !isPercent)) continue;
    if (share === undefined) {
      if (value < 1) setting.value = Math.max(1, Math.round(value * 100));
    } else if (value > 0 && value < 1) {
      setting.value = Math.max(1, Math.floor(value * window));
      // The size that counts as full may equal the window; a reserve may not.
    } else if (value > window || (value === window && share < 1)) {
      const whose = modelId === undefined ? "the model's window" : `the window of ${modelId}`;
      const under = modelId === undefined ? "models" : `models, ${modelId}`;
      const problem = `${key} is ${value}, and ${whose} is ${window} tokens; give a value above 0 and below that size, a share between 0 and 1, or a separate value under ${under}.`;
      if (origin !== "default") throw settingsError(setting, key, problem);
      setting.value = Math.floor(window * share);
    }
  }
}

const PREFIX = "ESPALIER_COMPACT_";

/** Settings by their names after `SYNAPSE_COMPACT_`, which are also accepted after `ESPALIER_COMPACT_`. */
const OF_SYNAPSE: Readonly<Record<string, string>> = {
  TRIGGER_THRESHOLD: "triggerTokens",
  TARGET_TOKENS: "targetTokens",
  PRESERVE_COUNT: "preserveCount",
  MODEL: "model",
  RETRY_COUNT: "retryCount",
};

/**
 * Reads settings from the environment. A variable is `ESPALIER_COMPACT_` and the key in capitals, with `_` between its
 * words: `ESPALIER_COMPACT_KEEP_RECENT_TOKENS` is `keepRecentTokens`. The five `SYNAPSE_COMPACT_` variables of origins
 * 003 have lower priority. An empty variable is ignored.
 */
function readEnvironment(environment: NodeJS.ProcessEnv): SettingsLayer {
  const values: Record<string, string> = {};
  const variables: Record<string, string> = {};
  const read = (key: string, variable: string) => {
    const text = environment[variable]?.trim();
    if (!text) return;
    values[key] = text;
    variables[key] = variable;
  };
  // The last name of a setting has priority: the one like its key is read last.
  for (const prefix of ["SYNAPSE_COMPACT_", PREFIX])
    for (const [name, key] of Object.entries(OF_SYNAPSE)) read(key, prefix + name);
  for (const variable of Object.keys(environment)) {
    const name = variable.slice(PREFIX.length);
    if (variable.startsWith(PREFIX) && !Object.hasOwn(OF_SYNAPSE, name))
      read(camelCase(name.toLowerCase()), variable);
  }
  return { origin: "environment", file: null, values, variables };
}
