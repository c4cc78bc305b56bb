import type { Settings } from "./settings.ts";
import { settingsError } from "./settings-error.ts";
import type { SettingsLayer } from "./settings-layer.ts";
import { MODEL_KEYS, SETTING_RULES, type SettingRule, settingsSchema } from "./settings-schema.ts";

/** Settings of one place that are each what the schema allows; sizes may still be shares of the window. */
export interface CheckedSettings extends Partial<Settings> {
  models?: Readonly<Record<string, Partial<Settings>>>;
}

/**
 * What a place says, checked; the texts of the environment as the values that they mean.
 * @throws EngineError `settings`, naming the place, the key and what is allowed
 */
export function checkedLayer(layer: SettingsLayer): CheckedSettings {
  const values = layer.variables ? fromTexts(layer) : layer.values;
  const { success, data, error } = settingsSchema.safeParse(values);
  if (success) return data as CheckedSettings;
  const [issue] = error.issues;
  const path = [
    ...(issue?.path ?? []),
    ...(issue?.code === "unrecognized_keys" ? issue.keys.slice(0, 1) : []),
  ];
  throw problemAt(layer, values, path.map(String));
}

function fromTexts(layer: SettingsLayer): Record<string, unknown> {
  const entries = Object.entries(layer.values).map(([key, text]) => {
    const rule = ruleOf(key);
    if (!rule || rule.kind === "list") throw problemAt(layer, layer.values, [key]);
    return [key, fromText(String(text), rule)];
  });
  return Object.fromEntries(entries);
}

const YES_OR_NO = new Map([
  ["true", true],
  ["1", true],
  ["false", false],
  ["0", false],
]);

/** What cannot be read stays the text that it is, and is refused as such. */
function fromText(text: string, { kind }: SettingRule): unknown {
  if (kind === "boolean") return YES_OR_NO.get(text.toLowerCase()) ?? text;
  if (kind !== "number") return text;
  const number = Number(text);
  return Number.isNaN(number) ? text : number;
}

/** Characters of a value, as JSON, that a message repeats; no key has fewer than 16. */
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
  const written = JSON.stringify(valueAt(values, path)) ?? "nothing";
  // A key can be of a form that nobody knows: what is long is not repeated.
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
