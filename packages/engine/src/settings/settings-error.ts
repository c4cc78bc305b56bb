import { redactText } from "@espalier/session-tree";
import { EngineError } from "../engine-error.ts";
import type { SettingsLayer } from "./settings-layer.ts";

/** The error for a setting that cannot be used: names the place and the key, and repeats no secret. */
export function settingsError(
  layer: Pick<SettingsLayer, "origin" | "file" | "variables"> | undefined,
  key: string | undefined,
  problem: string,
  cause?: unknown,
): EngineError {
  return new EngineError("settings", redactText(`${placeOf(layer, key)}: ${problem}`), {
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
