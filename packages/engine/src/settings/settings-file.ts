import { existsSync, realpathSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { withView } from "@espalier/jsonl-stream/node";
import { isRecord } from "@espalier/session-tree";
import { PROVIDERS } from "../providers/named.ts";
import { camelCase, type SettingsLayer, settingsError } from "./settings.ts";

/** Settings that only the user's own file may have: a project must not redirect a conversation or a key. */
const OF_THE_USER = Object.values(PROVIDERS)
  .flatMap(({ address, key }) => [address.setting, key.setting])
  .sort();

/** Names of secrets, and of the addresses that receive them. */
const ACCESS = /^(.*api_?keys?|.*auth_?tokens?|.*base_?(url|address)|.*secrets?)$/i;

/** Names of settings files; a folder has one of them. */
export const SETTINGS_FILES = ["settings.json", "settings.toml"] as const;

/** Maximum number of bytes of a settings file. */
const MOST_SETTINGS_BYTES = 256 * 1024;

/** Table of origins 004, whose keys are at the top level here. */
const TABLE = "behavior";

/**
 * Reads `settings.json` or `settings.toml` of a folder; undefined when the folder has neither.
 *
 * @throws EspalierError `settings` for an invalid file, and when both exist
 */
export async function readSettingsFile(
  folder: string,
  origin: "user" | "project",
): Promise<SettingsLayer | undefined> {
  const [file, another] = settingsFilesIn(folder);
  if (file === undefined) return undefined;
  const place = { origin, file };
  if (another !== undefined)
    throw settingsError(place, undefined, `${another} exists too; keep one of them.`);
  const values = flattened(place, await parsed(place));
  const { extensions } = values;
  if (Array.isArray(extensions))
    values["extensions"] = extensions.map((path) =>
      typeof path === "string" && path !== "" ? resolve(dirname(file), path) : path,
    );
  return { ...place, values };
}

/** Paths of the existing settings files. */
export const settingsFilesIn = (folder: string): string[] =>
  SETTINGS_FILES.map((name) => join(folder, name)).filter((path) => existsSync(path));

type Place = { origin: "user" | "project"; file: string };

type Table = Record<string, unknown>;

async function parsed(place: Place): Promise<Table> {
  const { file } = place;
  let content: unknown;
  try {
    const text = textIn(file);
    content = file.endsWith(".json") ? JSON.parse(text) : (await import("smol-toml")).parse(text);
  } catch (cause) {
    const [said = ""] = (cause instanceof Error ? cause.message : String(cause)).split("\n");
    // Node quotes the text around the position.
    const reason = said.replace(/, (?:\.\.\.)?".*$/s, "").replace(/\.$/, "");
    throw settingsError(place, undefined, `it cannot be read (${reason}); correct it.`, cause);
  }
  if (isRecord(content)) return content;
  throw settingsError(place, undefined, "it has no table of settings; begin it with { and a key.");
}

/**
 * Reads a regular file of at most 256 KiB, also through a link. A FIFO or a device is refused, because reading it would
 * never end.
 */
function textIn(file: string): string {
  return withView(realpathSync(file), (view) => {
    if (view.size > MOST_SETTINGS_BYTES)
      throw new Error(`it has more than ${MOST_SETTINGS_BYTES / 1024} KiB`);
    return new TextDecoder().decode(view.read(0, view.size));
  });
}

/**
 * Converts all keys to camelCase, and moves those of the table `behavior` to the top level. The settings of a model stay
 * in its table.
 */
function flattened(place: Place, table: Table): Table {
  const { [TABLE]: inner = {}, ...outer } = table;
  if (!isRecord(inner)) throw settingsError(place, TABLE, `${TABLE} is a table of settings.`);
  const values = respelt(place, [...Object.entries(outer), ...Object.entries(inner)]);
  const { models } = values;
  if (!isRecord(models)) return values;
  const ofModels = Object.entries(models).map(([model, own]) => [
    model,
    isRecord(own) ? respelt(place, Object.entries(own)) : own,
  ]);
  return { ...values, models: Object.fromEntries(ofModels) };
}

function respelt(place: Place, entries: readonly (readonly [string, unknown])[]): Table {
  const values: Table = {};
  for (const [written, value] of entries) {
    const key = camelCase(written);
    if (ACCESS.test(written) && !(place.origin === "user" && OF_THE_USER.some((one) => one === key))) {
      const cure =
        place.origin === "user"
          ? `the keys and addresses allowed here are ${OF_THE_USER.join(", ")}; or use variables such as ANTHROPIC_API_KEY`
          : "a project's keys and addresses come from the environment alone (ANTHROPIC_API_KEY, ANTHROPIC_BASE_URL)";
      throw settingsError(place, written, `remove ${written}; ${cure}.`);
    }
    if (Object.hasOwn(values, key)) throw settingsError(place, key, `${key} is in it twice; keep one.`);
    values[key] = value;
  }
  return values;
}
