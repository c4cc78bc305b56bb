import { resolve } from "node:path";
import {
  checkMessageCountSettings,
  checkOffloadSettings,
  checkPressureSettings,
  checkSlidingWindowSettings,
  PolicyError,
} from "@espalier/policies";
import { EngineError } from "../engine-error.ts";
import { espalierHome } from "../home.ts";
import { type ConfirmTrust, changedSentence, openTrust, someOf } from "../trust.ts";
import type { CheckedSettings } from "./checked-layer.ts";
import { readEnvironment } from "./read-environment.ts";
import { readSettingsFile, settingsFilesIn } from "./read-settings-file.ts";
import {
  DEFAULT_SETTINGS,
  SETTING_EFFECTS,
  SETTINGS_KEYS,
  type SettingEffect,
  type Settings,
  type SettingsKey,
} from "./settings.ts";
import { settingsError } from "./settings-error.ts";
import { type PlacedValue, settingsInTokens, valuesOf } from "./settings-in-tokens.ts";
import type { SettingsLayer, SettingsOrigin } from "./settings-layer.ts";

/** Where settings are looked for. */
export interface SettingsSources {
  /** The folder that stands for `~/.espalier`; default: `ESPALIER_HOME`, or that. */
  home?: string;
  /** The project's folder; its settings are in `.espalier`. Default: the process's. */
  cwd?: string;
  /** Default: the process's environment. */
  env?: NodeJS.ProcessEnv;
  /** What the command line says, above all else. */
  flags?: Partial<Settings>;
  /** The model that is in force, whose own settings count; asked only where some model has settings of its own. */
  model?: string | (() => string | undefined);
  /** Asked when the project changed since it was trusted. Default: it does not count. */
  confirmTrust?: ConfirmTrust;
}

/** Where one setting comes from. */
export interface SettingOrigin {
  key: SettingsKey;
  /** Null for what nobody says and has no default. */
  value: unknown;
  origin: SettingsOrigin;
  /** The settings file, if it is one. */
  file: string | null;
  /** The environment's variable, if it is one. */
  variable: string | null;
}

/** A setting that a project has and that does not count, since nobody trusts the project as it is now. */
export interface LeftOutSetting {
  key: SettingsKey;
  file: string;
  /** What it would decide. */
  effect: SettingEffect;
}

/** The settings in force, each with where it comes from. */
export interface ResolvedSettings {
  values: Settings;
  /** One for each setting, in the order in which people are told of them. */
  origins: SettingOrigin[];
  /** Why something that a file says does not count, each in a sentence with the cure. */
  ignored: string[];
  /** The settings that do not count, in the order of the others. */
  leftOut: LeftOutSetting[];
}

/**
 * The settings in force: defaults < user file < project file < environment < flags. Reads files, changes nothing.
 *
 * @throws EngineError `settings`, naming the file or the variable, the key and what is allowed
 */
export async function resolveSettings(sources: SettingsSources = {}): Promise<ResolvedSettings> {
  const { cwd = process.cwd(), env = process.env, flags = {} } = sources;
  const home = sources.home ?? espalierHome(env);
  const user = await readSettingsFile(home, "user");
  const folder = resolve(cwd, ".espalier");
  // In the folder that the home lies in, the user's file is not a project's too.
  const isOwn = folder === resolve(home) || settingsFilesIn(folder).length === 0;
  const { layer: counted, ignored, leftOut } = isOwn ? NOTHING_SAID : await readProject(folder, sources);
  const said = { ...flags };
  const layers = [
    user,
    counted,
    readEnvironment(env),
    { origin: "flag" as const, file: null, values: said },
  ].filter((layer) => layer !== undefined && Object.keys(layer.values).length > 0) as SettingsLayer[];
  const placed = new Map<SettingsKey, PlacedValue>();
  put(placed, DEFAULT_SETTINGS, { origin: "default", file: null, values: {} });
  const checked = await checkedLayers(layers);
  const modelId = checked.some(({ models }) => models) ? modelOf(sources) : undefined;
  for (const [index, { models, ...values }] of checked.entries()) {
    put(placed, values, layers[index]!);
    put(placed, models && modelId !== undefined ? ownOf(models, modelId) : {}, layers[index]!);
  }
  const resolved = settingsInTokens(
    placed,
    modelId ?? (typeof sources.model === "string" ? sources.model : undefined),
  );
  const values = valuesOf(resolved);
  checkTogether(values, resolved);
  return { values, origins: SETTINGS_KEYS.map((key) => originOf(key, resolved.get(key))), ignored, leftOut };
}

interface ProjectSettings {
  /** Undefined where nothing of it counts. */
  layer: SettingsLayer | undefined;
  ignored: string[];
  leftOut: LeftOutSetting[];
}

const NOTHING_SAID: ProjectSettings = { layer: undefined, ignored: [], leftOut: [] };

/** The settings of a project count when it is trusted as it is now. Of another one only the names are looked at. */
async function readProject(folder: string, sources: SettingsSources): Promise<ProjectSettings> {
  const { cwd = process.cwd(), env = process.env, confirmTrust } = sources;
  const trust = openTrust(sources.home ?? espalierHome(env));
  const project = trust.look(cwd);
  const isConfirmed = project.state === "changed" && ((await confirmTrust?.(project)) ?? false);
  if (isConfirmed) await trust.trust(cwd);
  if (isConfirmed || project.state === "trusted")
    return { ...NOTHING_SAID, layer: await readSettingsFile(folder, "project") };
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
      : `${file}: its settings${named} count only after \`espalier trust\` in ${cwd}.`;
  return { layer: undefined, ignored: [sentence], leftOut };
}

/** The settings that a file nobody trusts names, for a model or for all; none where it cannot be read. */
async function keysIn(folder: string): Promise<ReadonlySet<string>> {
  try {
    const { models, ...values } = (await readSettingsFile(folder, "project"))?.values ?? {};
    const ofModels = Object.values(models ?? {}).flatMap((own) => Object.keys(own ?? {}));
    return new Set([...Object.keys(values), ...ofModels]);
  } catch (error) {
    // It is said when the project is trusted; until then it hurts nobody.
    if (error instanceof EngineError) return new Set();
    throw error;
  }
}

async function checkedLayers(layers: readonly SettingsLayer[]): Promise<CheckedSettings[]> {
  if (layers.length === 0) return [];
  const { checkedLayer } = await import("./checked-layer.ts");
  return layers.map(checkedLayer);
}

function put(placed: Map<SettingsKey, PlacedValue>, values: Partial<Settings>, layer: SettingsLayer): void {
  for (const [key, value] of Object.entries(values))
    if (value !== undefined) placed.set(key as SettingsKey, { value, layer });
}

const modelOf = ({ model }: SettingsSources): string | undefined =>
  typeof model === "function" ? model() : model;

/** A model's own settings: under its id, or under `provider/id`, which says more. */
function ownOf(models: NonNullable<CheckedSettings["models"]>, modelId: string): Partial<Settings> {
  const id = modelId.slice(modelId.indexOf("/") + 1);
  return {
    ...(Object.hasOwn(models, id) ? models[id] : {}),
    ...(Object.hasOwn(models, modelId) ? models[modelId] : {}),
  };
}

/** What only several settings together show to be wrong. */
function checkTogether(values: Settings, placed: ReadonlyMap<SettingsKey, PlacedValue>): void {
  const checks = [
    checkSlidingWindowSettings,
    checkMessageCountSettings,
    checkOffloadSettings,
    checkPressureSettings,
  ];
  for (const check of checks) {
    try {
      check(values);
    } catch (error) {
      if (!(error instanceof PolicyError)) throw error;
      const key = error.keys.find((named) => placed.get(named as SettingsKey)?.layer.origin !== "default");
      throw settingsError(placed.get(key as SettingsKey)?.layer, key, error.message, error);
    }
  }
}

function originOf(key: SettingsKey, placed: PlacedValue | undefined): SettingOrigin {
  const { origin = "default", file = null, variables } = placed?.layer ?? {};
  return { key, value: placed?.value ?? null, origin, file, variable: variables?.[key] ?? null };
}
