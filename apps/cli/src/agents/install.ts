// Separate from interactive.ts: it is loaded by `install` alone.
// Installs Espalier in another agent and removes it: first a plan of files, then the files.

import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmdirSync,
  rmSync,
  statSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { espalierHome } from "@espalier/engine";
import { createWhole, systemCode } from "@espalier/jsonl-stream/node";
import { createTwoFilesPatch, FILE_HEADERS_ONLY } from "diff";
import { CommandError } from "../failure.ts";
import { AGENT_NAMES, type Agent, type AgentSettings, agentsFolder, isInstalled } from "./agents.ts";
import { hooksFolder } from "./hook.ts";
import { type Insertion, NO_INSERTION } from "./settings-text.ts";

/** A file before and after a change; undefined if the file does not exist. */
interface FileChange {
  file: string;
  before: string | undefined;
  after: string | undefined;
}

/** Changes that an installation or a removal makes. */
export interface InstallPlan {
  agent: Agent;
  changes: FileChange[];
  /** Files and folders that are removed too, without a diff: notes, logs and caches of ours. */
  removed: string[];
  notes: string[];
}

/** Record of the changes that an installation made to files of the agent. */
interface InstallRecord {
  files: Record<string, Insertion & { existed: boolean }>;
  /** Folders that were created, the outer ones first. */
  folders: string[];
}

const NO_RECORD: InstallRecord = { files: {}, folders: [] };

const recordFile = ({ name }: Pick<Agent, "name">): string => join(agentsFolder(), `${name}.json`);

function readRecord(agent: Agent): InstallRecord {
  const text = textIn(recordFile(agent));
  if (text === undefined) return NO_RECORD;
  try {
    return { ...NO_RECORD, ...(JSON.parse(text) as InstallRecord) };
  } catch (cause) {
    const message = `The record of the installation, ${recordFile(agent)}, cannot be read. Move the file away and repeat the command; then only Espalier's keys are removed.`;
    throw new CommandError("settings", message, { cause });
  }
}

/**
 * Plans an installation. It replaces files and values of an earlier installation.
 * @throws CommandError `not-found` if the agent is not installed; `settings` for a file that must not be changed
 */
export function planInstall(agent: Agent): InstallPlan {
  if (!isInstalled(agent))
    throw new CommandError(
      "not-found",
      `${agent.label} is not installed: there is no folder ${agent.home} and no command ${agent.program}. Install it, then repeat this command.`,
    );
  const record = readRecord(agent);
  const notes = [...agent.notes];
  const files: InstallRecord["files"] = {};
  const changes = agent.settings
    .filter(({ onlyRemoved }) => !onlyRemoved)
    .map((settings) => {
      const { file, form } = settings;
      const before = textIn(file);
      const known = record.files[file];
      const after = inFile(file, () => {
        const base = form.remove(before ?? "", settings.values, known ?? NO_INSERTION);
        const values = settings.values.filter(({ path: [key = ""], isOurs }) => {
          const there = key === "statusLine" ? form.read(base, [key]) : undefined;
          if (there === undefined || isOurs(there)) return true;
          notes.push(`Your own status line stays, because ${agent.label} shows only one.`);
          return false;
        });
        const { text, pieces, made } = form.insert(base, values);
        files[file] = { pieces, made, existed: known?.existed ?? before !== undefined };
        return text;
      });
      return { file, before, after };
    });
  const folders = [
    ...new Set([...record.folders, ...changes.flatMap(({ file }) => missingFolders(dirname(file)))]),
  ];
  const recorded = `${JSON.stringify({ files, folders } satisfies InstallRecord, null, 2)}\n`;
  const own = Object.entries(agent.ownFiles).map(([path, after]) =>
    changeOf(join(agent.folder, path), after),
  );
  // The record is written first, so that a removal after a crash knows the planned changes.
  return { agent, notes, removed: [], changes: [changeOf(recordFile(agent), recorded), ...own, ...changes] };
}

/**
 * Plans the removal of everything that an installation wrote, and of what hooks and the server then kept. Sessions stay:
 * they are the user's.
 * @throws CommandError `settings`
 */
export function planUninstall(agent: Agent): InstallPlan {
  const record = readRecord(agent);
  const notes: string[] = [];
  const changes = agent.settings.flatMap((settings): FileChange[] => {
    const { file, form, values, onlyRemoved } = settings;
    const known = record.files[file];
    try {
      const before = textIn(file);
      if (before === undefined) return [];
      const after = inFile(file, () => form.remove(before, values, known ?? NO_INSERTION));
      const isOver = known?.existed === false && isNothing(settings, after);
      return [{ file, before, after: isOver ? undefined : after }];
    } catch (error) {
      if (!onlyRemoved || !(error instanceof CommandError)) throw error;
      notes.push(`${agent.label}'s own record ${file} cannot be read and was not changed.`);
      return [];
    }
  });
  const own = Object.keys(agent.ownFiles).map((path) => changeOf(join(agent.folder, path), undefined));
  notes.push(`Sessions of ${agent.label} that run now may still have it; end them.`, ...sessionNotes(agent));
  return {
    agent,
    notes,
    removed: keptFor(agent),
    changes: [...changes, ...own, changeOf(recordFile(agent), undefined)],
  };
}

/**
 * Returns the existing paths of notes, logs and caches to remove: those of the agent; if it is the last installed one,
 * those of all agents. Indexes of sessions stay while there are sessions.
 */
function keptFor({ name }: Agent): string[] {
  const isLast = !AGENT_NAMES.some((other) => other !== name && existsSync(recordFile({ name: other })));
  const home = espalierHome();
  if (!isLast || !existsSync(home)) return [join(hooksFolder(), name)].filter((path) => existsSync(path));
  const imports = readdirSync(home).filter((file) => file.startsWith("imported.json"));
  // An index of sessions is of use while there are some.
  const indexes = hasFiles(join(home, "sessions")) ? [] : ["ids", "listings.json", "sessions"];
  return [hooksFolder(), ...[...imports, ...indexes].map((file) => join(home, file))].filter((path) =>
    existsSync(path),
  );
}

const hasFiles = (folder: string): boolean =>
  existsSync(folder) &&
  readdirSync(folder, { recursive: true, withFileTypes: true }).some((entry) => !entry.isDirectory());

/** A sentence on the sessions that were imported from the agent; none if there are no imported sessions at all. */
function sessionNotes({ name, label }: Agent): string[] {
  const home = espalierHome();
  if (!hasFiles(join(home, "sessions"))) return [];
  const list = `espalier list ${join(home, "sessions")} --agent ${name} --sub-agents --json`;
  return [
    `Sessions imported from ${label} stay, as they are yours: \`${list}\` prints their files. Delete those, or all of Espalier with the folder ${home}.`,
  ];
}

/** Returns whether a file that was created for our values has no other content. */
function isNothing({ form }: AgentSettings, text: string): boolean {
  const value = text.trim() === "" ? {} : form.read(text, []);
  return typeof value === "object" && value !== null && Object.keys(value).length === 0;
}

const changeOf = (file: string, after: string | undefined): FileChange => ({
  file,
  before: textIn(file),
  after,
});

/** Runs a step on a settings file; its error names the file. */
function inFile<Result>(file: string, step: () => Result): Result {
  try {
    return step();
  } catch (error) {
    const reason = reasonOf(error);
    if (reason === undefined) throw error;
    const message = `${file} cannot be changed: ${reason}. Nothing was changed.`;
    throw new CommandError("settings", message, { cause: error });
  }
}

/** Returns the reason of an error that a file causes; undefined for every other error. */
function reasonOf(error: unknown): string | undefined {
  if (error instanceof CommandError) return error.message;
  const code = systemCode(error);
  if (code) return `it cannot be read (${code}); check its permissions`;
  // The parsers of JSON and TOML are recursive.
  return error instanceof RangeError ? "its values are nested too deeply" : undefined;
}

/** Reads a file; undefined if it does not exist. @throws CommandError `settings` */
function textIn(file: string): string | undefined {
  return inFile(file, () => {
    if (!statSync(file, { throwIfNoEntry: false })) {
      if (!lstatSync(file, { throwIfNoEntry: false })) return undefined;
      throw new CommandError("settings", "it is a link to a missing file");
    }
    if (!statSync(file).isFile()) throw new CommandError("settings", "it is not a file");
    const bytes = readFileSync(file);
    const text = bytes.toString("utf8");
    if (!Buffer.from(text).equals(bytes)) throw new CommandError("settings", "it is not UTF-8 text");
    return text;
  });
}

/** Lists the missing folders of a path, the outer ones first. */
function missingFolders(folder: string): string[] {
  if (existsSync(folder)) return [];
  return [...missingFolders(dirname(folder)), folder];
}

/**
 * Carries out a plan. After an error, a first installation is undone; other plans may be carried out in part.
 * @throws CommandError `changed` for a file that changed after the plan was made; `settings` for a file that cannot be
 * written
 */
export function carryOut({ agent, changes, removed }: InstallPlan): void {
  const isFirst = !existsSync(recordFile(agent));
  const { folders } = readRecord(agent);
  const created: string[] = [];
  try {
    for (const change of changes.filter(({ before, after }) => before !== after)) {
      if (textIn(change.file) !== change.before) {
        const message = `Another program changed ${change.file} meanwhile, so it was not written; repeat the command.`;
        throw new CommandError("changed", message);
      }
      if (change.after === undefined) removeFile(change.file);
      else writeText(change.file, change.after);
      if (change.before === undefined) created.push(change.file);
    }
  } catch (error) {
    // The settings come last, so that a first installation that fails has created files and changed none.
    if (isFirst) {
      for (const file of created.toReversed()) removeFile(file);
      removeFolders(agent, []);
    }
    throw error;
  }
  if (existsSync(recordFile(agent))) return;
  for (const path of removed) removeFile(path);
  removeFolders(agent, folders);
}

/** Removes empty folders: of our own files, of the records, and `folders`, which the installation created. */
function removeFolders(agent: Agent, folders: readonly string[]): void {
  for (const path of Object.keys(agent.ownFiles))
    removeEmpty(dirname(join(agent.folder, path)), agentsFolder());
  for (const folder of folders.toReversed()) removeEmpty(folder, dirname(folder));
  removeEmpty(agentsFolder(), dirname(espalierHome()));
}

/** Removes a file, or a folder with its files. Throws CommandError `settings`. */
function removeFile(path: string): void {
  try {
    rmSync(path, { recursive: true, force: true });
  } catch (cause) {
    const message = `${path} cannot be removed (${systemCode(cause) ?? "see cause"}); check the permissions of its folder, and repeat the command.`;
    throw new CommandError("settings", message, { cause });
  }
}

/** Replaces a file with the same mode, 0600 for a new file; links are followed. Throws CommandError `settings`. */
function writeText(path: string, text: string): void {
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    const file = existsSync(path) ? realpathSync(path) : path;
    const mode = (statSync(file, { throwIfNoEntry: false })?.mode ?? 0o600) & 0o777;
    createWhole(file, [Buffer.from(text)], { mode, replaces: true });
  } catch (cause) {
    const message = `${path} could not be written (${systemCode(cause) ?? "see cause"}); check the permissions of its folder and the free space on the disk, and repeat the command.`;
    throw new CommandError("settings", message, { cause });
  }
}

/** Removes a folder and its parents up to `end` while they are empty and may be removed. */
function removeEmpty(folder: string, end: string): void {
  for (let each = folder; each !== end && each.startsWith(end); each = dirname(each)) {
    try {
      rmdirSync(each);
    } catch (error) {
      const { code = "" } = error as NodeJS.ErrnoException;
      if (code === "ENOENT") continue;
      if (KEEPING.has(code)) return;
      throw error;
    }
  }
}

/** Codes of folders that stay: they have other files, are the root of a disk, or are in a read-only folder. */
const KEEPING: ReadonlySet<string> = new Set(["ENOTEMPTY", "EEXIST", "EBUSY", "EACCES", "EPERM", "EROFS"]);

/** Unified diff of a change, with three lines of context. */
export function diffOf({ file, before, after }: FileChange): string[] {
  if (before === after) return [];
  const [from, to] = [before, after].map((text) => (text === undefined ? "/dev/null" : file));
  const patch = createTwoFilesPatch(from!, to!, before ?? "", after ?? "", undefined, undefined, {
    context: 3,
    headerOptions: FILE_HEADERS_ONLY,
    stripTrailingCr: true,
  });
  return patch.trimEnd().split("\n");
}
