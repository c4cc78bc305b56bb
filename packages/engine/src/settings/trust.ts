import { existsSync, readdirSync, readFileSync, realpathSync, rmSync, type Stats, statSync } from "node:fs";
import { join, relative, resolve, sep } from "node:path";
import { EspalierError } from "@espalier/jsonl-stream";
import { createWhole, digestOf, systemCode, withView } from "@espalier/jsonl-stream/node";
import { makeFolder, projectKey } from "@espalier/session-tree/node";
import { espalierHome } from "./home.ts";
import { readSettingsFile, SETTINGS_FILES } from "./settings-file.ts";

/** Trust of a project. */
export interface ProjectTrust {
  /** Real path of the folder; the given path when there is no folder. */
  folder: string;
  /** `changed`: the project was trusted, and a relevant file has changed since. */
  state: "trusted" | "changed" | "untrusted";
  /**
   * With `changed`: paths of the changed, added or removed files, relative to the folder, absolute for files outside; or
   * one sentence when the project has too much content to compare.
   */
  changes: string[];
}

/**
 * Trusted project folders, each with a digest of every relevant file: its settings, all files in
 * `.espalier/extensions`, and the modules that its settings name. Modules that these import from elsewhere are not
 * covered. Each project has a separate file in `<home>/trusted`, which only its owner can read, so that two programs
 * can trust projects at the same time.
 */
export interface TrustStore {
  /** Compares a project with its trusted state. Reads its files, runs no code. */
  look(folder: string): ProjectTrust;
  /** Returns whether a project is trusted and unchanged; false for a missing folder. */
  isTrusted(folder: string): boolean;
  /**
   * Trusts a project in its current state.
   *
   * @throws EspalierError `bad-input` for a path that is not a folder, or a folder with too much content to compare
   * each time; `settings` for unreadable settings; `write-failed`
   */
  trust(folder: string): Promise<void>;
  /** Ends the trust; does nothing for an untrusted folder. Throws EspalierError `write-failed`. */
  revoke(folder: string): void;
  /** Lists all trusted folders, sorted, including changed ones. */
  list(): string[];
}

/** Called with a project that changed since it was trusted; true trusts its current state. */
export type ConfirmTrust = (project: ProjectTrust) => boolean | Promise<boolean>;

/** Maximum number of bytes and files that are compared at each check. */
const MOST_BYTES = 64 * 1024 * 1024;
const MOST_FILES = 5_000;

interface TrustRecord {
  folder: string;
  /** By path, relative to the folder or absolute for files outside: a SHA-256, or the reason for its absence. */
  files: Record<string, string>;
  /** Absolute paths of the modules that the settings name. They change only when the settings change. */
  modules: string[];
}

/**
 * Opens the trust store of a home. Its methods throw EspalierError `bad-input` when the record of a project cannot be
 * read: the project is then not trusted.
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
      const bytes = Buffer.from(`${JSON.stringify(record, null, 2)}\n`);
      withWriteErrors(fileOf(folder), (file) => createWhole(file, [bytes], { replaces: true }));
    },
    revoke(folder) {
      const file = fileOf(resolve(folder));
      if (existsSync(file)) withWriteErrors(file, () => rmSync(file, { force: true }));
    },
    list() {
      const names = existsSync(records) ? readdirSync(records).filter((name) => name.endsWith(".json")) : [];
      return names.map((name) => recordIn(join(records, name))!.folder).sort();
    },
  };
}

/** Returns the sentence for a changed project, which is ignored. */
export const changedSentence = ({ folder, changes }: ProjectTrust): string =>
  `${folder} has changed since it was trusted (${someOf(changes)}): its settings and extensions do not apply until \`espalier trust ${folder}\`.`;

/** Returns the first names of a list, and the number of the others. */
export const someOf = (names: readonly string[]): string =>
  [...names.slice(0, 3), ...(names.length > 3 ? [`${names.length - 3} more`] : [])].join(", ");

function withWriteErrors(file: string, write: (file: string) => void): void {
  try {
    write(file);
  } catch (cause) {
    const message = `${file} cannot be written (${systemCode(cause) ?? "see cause"}); check the permissions of its folder and the free space on the disk, or name another home in ESPALIER_HOME.`;
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
  const message = `${file} is not a list of trusted folders; remove it, and trust the project again.`;
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
        `${join(folder, ".espalier")} has more than 64 MiB or 5,000 files to check; keep packages in another folder.`,
      );
    const place = path.startsWith(folder + sep) ? relative(folder, path) : path;
    if (facts) digests[place] = fileDigest(path, facts);
  }
  return digests;
}

/** Lists all files below a folder, also through links, because extensions are loaded through them. */
function filesBelow(root: string): string[] {
  const files: string[] = [];
  const met = new Set<string>();
  const waiting = [root];
  for (let folder = waiting.pop(); folder !== undefined; folder = waiting.pop()) {
    const facts = factsOf(folder);
    if (!facts?.isDirectory() || met.has(`${facts.dev}:${facts.ino}`)) continue;
    met.add(`${facts.dev}:${facts.ino}`);
    for (const name of namesIn(folder)) {
      const path = join(folder, name);
      if (factsOf(path)?.isDirectory()) waiting.push(path);
      else files.push(path);
      if (files.length > MOST_FILES) return files;
    }
  }
  return files;
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    // The loader of extensions does not find this file either, and reports it.
    return [];
  }
}

/** Returns the stats of a path, through links; undefined when it does not exist. */
function factsOf(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch {
    // A link to itself, a path below a file, or a folder without rights: the file could not be loaded.
    return undefined;
  }
}

function fileDigest(path: string, facts: Stats): string {
  if (!facts.isFile()) return "no file";
  try {
    return withView(realpathSync(path), (view) => digestOf(view));
  } catch (error) {
    // This text differs from any digest, so that a file that becomes readable counts as changed.
    return `unreadable (${String((error as { code?: unknown }).code)})`;
  }
}
