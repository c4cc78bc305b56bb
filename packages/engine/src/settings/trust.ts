import { createHash } from "node:crypto";
import {
  type Dirent,
  existsSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  type Stats,
  statSync,
  writeFileSync,
} from "node:fs";
import { dirname, join, relative, resolve, sep } from "node:path";
import { EspalierError } from "@espalier/jsonl-stream";
import { openView } from "@espalier/jsonl-stream/node";
import { createId } from "@espalier/session-tree";
import { makeFolder, projectKey } from "@espalier/session-tree/node";
import { espalierHome } from "./home.ts";
import { camelCase, type SettingsLayer, settingsError } from "./settings.ts";

/** A project, as its trust stands. */
export interface ProjectTrust {
  /** The folder's real path; the path as given where nothing is there. */
  folder: string;
  /** `changed`: it was trusted, and something that counts is not as it was then. */
  state: "trusted" | "changed" | "untrusted";
  /** With `changed`: the files that were changed, added or removed, by their paths from the folder. */
  changes: string[];
}

/**
 * The project folders whose settings and extensions count, each with a digest of every file that counts: its settings,
 * all files in `.espalier/extensions`, and the modules that its settings name. What those import from elsewhere is not
 * covered. Kept in `<home>/trusted`, a file a project, for its owner alone: two who trust at once do not meet.
 */
export interface TrustStore {
  /** Compares a project with what was trusted. Reads its files, runs nothing. */
  look(folder: string): ProjectTrust;
  /** True for a project that is as it was when it was trusted; false for a folder that is not there. */
  isTrusted(folder: string): boolean;
  /**
   * Trusts a project as it is now.
   * @throws EspalierError `bad-input` for what is no folder, or holds more than can be compared each time; `settings` for
   *   settings that cannot be read; EspalierError `write-failed`
   */
  trust(folder: string): Promise<void>;
  /** Ends the trust; does nothing for a folder without. Throws EspalierError `write-failed`. */
  revoke(folder: string): void;
  /** All folders, sorted, changed ones too. */
  list(): string[];
}

/** Confirms a project that changed since it was trusted; true trusts it as it is now. */
export type ConfirmTrust = (project: ProjectTrust) => boolean | Promise<boolean>;

/** Bytes and files that are compared at most, each time that a command asks. */
const MOST_BYTES = 64 * 1024 * 1024;
const MOST_FILES = 5_000;

/** What was trusted, in a file. */
interface TrustRecord {
  folder: string;
  /** By path from the folder, or absolute for what lies outside: a SHA-256, or why there is none. */
  files: Record<string, string>;
  /** The modules that the settings name, absolute. The settings being the same, so are these. */
  modules: string[];
}

/**
 * Opens the trust of a home. Asking throws EspalierError `bad-input` when what is kept of a project cannot be understood:
 * it is not trusted then.
 */
export function openTrust(home: string = espalierHome()): TrustStore {
  const records = join(home, "trusted");
  const fileOf = (folder: string) => join(records, `${projectKey(folder)}.json`);
  const look = (given: string): ProjectTrust => {
    const folder = existsSync(given) ? realpathSync(given) : resolve(given);
    const record = existsSync(given) ? recordIn(fileOf(folder)) : undefined;
    if (record?.folder !== folder) return { folder, state: "untrusted", changes: [] };
    const changes = changesSince(record);
    return { folder, state: changes.length === 0 ? "trusted" : "changed", changes };
  };
  return {
    look,
    isTrusted: (folder) => look(folder).state === "trusted",
    async trust(given) {
      if (!statSync(given, { throwIfNoEntry: false })?.isDirectory())
        throw new EspalierError("bad-input", `There is no folder ${given}; name the project's folder.`);
      const folder = realpathSync(given);
      const settings = await readSettingsFile(join(folder, ".espalier"), "project");
      const { extensions = [] } = (settings?.values ?? {}) as { extensions?: unknown };
      const modules = (Array.isArray(extensions) ? extensions : []).filter(
        (path) => typeof path === "string",
      );
      const record: TrustRecord = { folder, files: digestsIn(folder, modules), modules };
      makeFolder(records);
      writing(fileOf(folder), (file) => {
        const draft = `${file}.${createId()}.tmp`;
        writeFileSync(draft, `${JSON.stringify(record, null, 2)}\n`, { mode: 0o600, flag: "wx" });
        renameSync(draft, file);
      });
    },
    revoke(folder) {
      const file = fileOf(resolve(folder));
      if (existsSync(file)) writing(file, () => rmSync(file, { force: true }));
    },
    list() {
      const names = existsSync(records) ? readdirSync(records).filter((name) => name.endsWith(".json")) : [];
      return names.map((name) => recordIn(join(records, name))!.folder).sort();
    },
  };
}

/** Says once, in one sentence, that a changed project does not count. */
export const changedSentence = ({ folder, changes }: ProjectTrust): string =>
  `${folder} has changed since it was trusted (${someOf(changes)}): its settings and extensions do not count until \`espalier trust ${folder}\`.`;

/** The first names of a list, and how many more there are. */
export const someOf = (names: readonly string[]): string =>
  [...names.slice(0, 3), ...(names.length > 3 ? [`${names.length - 3} more`] : [])].join(", ");

function writing(file: string, write: (file: string) => void): void {
  try {
    write(file);
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code ?? "see cause";
    const message = `${file} cannot be written (${code}); make its folder writable, or name another home in ESPALIER_HOME.`;
    throw new EspalierError("write-failed", message, { cause });
  }
}

function recordIn(file: string): TrustRecord | undefined {
  if (!existsSync(file)) return undefined;
  let cause: unknown;
  try {
    const record = JSON.parse(readFileSync(file, "utf8")) as Partial<TrustRecord> | null;
    const { folder, files, modules } = record ?? {};
    if (typeof folder === "string" && typeof files === "object" && files !== null && Array.isArray(modules))
      return { folder, files, modules };
  } catch (error) {
    cause = error;
  }
  const message = `${file} says nothing that can be understood; remove it, and trust the project again.`;
  throw new EspalierError("bad-input", message, { cause });
}

function changesSince({ folder, files, modules }: TrustRecord): string[] {
  let now: Record<string, string>;
  try {
    now = digestsIn(folder, modules);
  } catch (error) {
    if (error instanceof EspalierError) return [error.message.replace(/;.*$/, "")];
    throw error;
  }
  const then = new Map(Object.entries(files));
  const paths = new Set([...then.keys(), ...Object.keys(now)]);
  return [...paths].filter((path) => then.get(path) !== now[path]).sort();
}

/** A digest of every file of a project that counts. */
function digestsIn(folder: string, modules: readonly string[]): Record<string, string> {
  const paths = [
    ...SETTINGS_FILES.map((name) => join(folder, ".espalier", name)),
    ...filesBelow(join(folder, ".espalier", "extensions")),
    ...modules,
  ];
  const digests: Record<string, string> = {};
  let bytes = 0;
  for (const path of paths) {
    const facts = factsOf(path);
    bytes += facts?.size ?? 0;
    if (bytes > MOST_BYTES || paths.length > MOST_FILES)
      throw new EspalierError(
        "bad-input",
        `${join(folder, ".espalier")} holds more than 64 MiB or 5,000 files that count; keep packages elsewhere.`,
      );
    const place = path.startsWith(folder + sep) ? relative(folder, path) : path;
    if (facts) digests[place] = digestOf(path, facts);
  }
  return digests;
}

/** All files below a folder, through links too, since extensions are loaded through them. */
function filesBelow(root: string): string[] {
  const files: string[] = [];
  const met = new Set<string>();
  const waiting = [root];
  for (let folder = waiting.pop(); folder !== undefined; folder = waiting.pop()) {
    const facts = factsOf(folder);
    if (!facts?.isDirectory() || met.has(`${facts.dev}:${facts.ino}`)) continue;
    met.add(`${facts.dev}:${facts.ino}`);
    for (const { name } of entriesOf(folder)) {
      const path = join(folder, name);
      if (factsOf(path)?.isDirectory()) waiting.push(path);
      else files.push(path);
      if (files.length > MOST_FILES) return files;
    }
  }
  return files;
}

function entriesOf(folder: string): Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true });
  } catch {
    // What cannot be listed is not found by whoever loads extensions either, which says so.
    return [];
  }
}

/** What stands at a path, through links; undefined for nothing. */
function factsOf(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch {
    // A link to itself, a path below a file, a folder without rights: nothing that could be loaded.
    return undefined;
  }
}

function digestOf(path: string, facts: Stats): string {
  if (!facts.isFile()) return "no file";
  try {
    const view = openView(realpathSync(path));
    try {
      const hash = createHash("sha256");
      for (let at = 0; at < view.size; at += 1 << 20) hash.update(view.read(at, 1 << 20));
      return hash.digest("hex");
    } finally {
      view.close();
    }
  } catch (error) {
    // Not the same as any content: what can be read later counts as changed.
    return `unreadable (${String((error as { code?: unknown }).code)})`;
  }
}

/** Names of settings that would be secrets or the addresses they are sent to. */
const FROM_THE_ENVIRONMENT_ONLY = /^(.*api_?keys?|.*auth_?tokens?|.*base_?(url|address)|.*secrets?)$/i;

/** The names of settings files; a folder has one of them. */
const SETTINGS_FILES = ["settings.json", "settings.toml"] as const;

/** Bytes that a settings file may have. */
const MOST_SETTINGS_BYTES = 256 * 1024;

/** A table of 004's, whose keys stand here without one. */
const TABLE = "behavior";

/**
 * What `settings.json` or `settings.toml` of a folder says; undefined where neither is.
 * @throws EspalierError `settings` for a file that cannot be understood, and for both at once
 */
export async function readSettingsFile(
  folder: string,
  origin: "user" | "project",
): Promise<SettingsLayer | undefined> {
  const [file, another] = settingsFilesIn(folder);
  if (file === undefined) return undefined;
  const place = { origin, file };
  if (another !== undefined)
    throw settingsError(place, undefined, `${another} is there too; keep one of them.`);
  const values = flattened(place, await parsed(place));
  const { extensions } = values;
  if (Array.isArray(extensions))
    values["extensions"] = extensions.map((path) =>
      typeof path === "string" && path !== "" ? resolve(dirname(file), path) : path,
    );
  return { ...place, values };
}

/** The paths of the settings files that are there. */
export const settingsFilesIn = (folder: string): string[] =>
  SETTINGS_FILES.map((name) => join(folder, name)).filter((path) => existsSync(path));

type Place = { origin: "user" | "project"; file: string };

type Table = Record<string, unknown>;

async function parsed(place: Place): Promise<Table> {
  const content = await tableIn(place).catch((cause: unknown) => {
    const [said = ""] = (cause instanceof Error ? cause.message : String(cause)).split("\n");
    // Node quotes what is around the place.
    const reason = said.replace(/, (?:\.\.\.)?".*$/s, "");
    throw settingsError(
      place,
      undefined,
      `it cannot be read (${reason.replace(/\.$/, "")}); mend it.`,
      cause,
    );
  });
  if (isTable(content)) return content;
  throw settingsError(place, undefined, "it holds no table of settings; begin it with { and a key.");
}

async function tableIn({ file }: Place): Promise<unknown> {
  const text = textIn(file).replace(/^\uFEFF/, "");
  return file.endsWith(".json") ? JSON.parse(text) : (await import("smol-toml")).parse(text);
}

/** The text of a regular file, or of one that a link leads to: a FIFO or a device would never end. */
function textIn(file: string): string {
  const view = openView(realpathSync(file));
  try {
    if (view.size > MOST_SETTINGS_BYTES)
      throw new Error(`it has more than ${MOST_SETTINGS_BYTES / 1024} KiB`);
    return new TextDecoder().decode(view.read(0, view.size));
  } finally {
    view.close();
  }
}

/** All keys in one spelling and on one level, but for what stands under a model's name. */
function flattened(place: Place, table: Table): Table {
  const { [TABLE]: inner = {}, ...outer } = table;
  if (!isTable(inner)) throw settingsError(place, TABLE, `${TABLE} is a table of settings.`);
  const values = respelt(place, [...Object.entries(outer), ...Object.entries(inner)]);
  const { models } = values;
  if (!isTable(models)) return values;
  const ofModels = Object.entries(models).map(([model, own]) => [
    model,
    isTable(own) ? respelt(place, Object.entries(own)) : own,
  ]);
  return { ...values, models: Object.fromEntries(ofModels) };
}

function respelt(place: Place, entries: readonly (readonly [string, unknown])[]): Table {
  const values: Table = {};
  for (const [written, value] of entries) {
    if (FROM_THE_ENVIRONMENT_ONLY.test(written)) {
      const cure =
        "keys and addresses come from the environment alone (ANTHROPIC_API_KEY, ANTHROPIC_BASE_URL)";
      throw settingsError(place, written, `take ${written} out; ${cure}.`);
    }
    const key = camelCase(written);
    if (Object.hasOwn(values, key)) throw settingsError(place, key, `${key} stands there twice; keep one.`);
    values[key] = value;
  }
  return values;
}

const isTable = (value: unknown): value is Table =>
  typeof value === "object" && value !== null && !Array.isArray(value);
