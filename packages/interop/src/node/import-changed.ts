import { existsSync, readFileSync } from "node:fs";
import { dirname } from "node:path";
import { isRecord, Redactor, redactText } from "@espalier/session-tree";
import { factsOf, makeFolder, takeFileLease, writeDerived } from "@espalier/session-tree/node";
import { ScratchSpace } from "../scratch/space.ts";
import {
  convertedAgents,
  type ImportOptions,
  importFile,
  type LocalAgent,
  planAgent,
} from "./import-sessions.ts";
import { type FoundFile, findFiles, SourceFiles, TemporaryFile } from "./sources.ts";
import type { ImportReport } from "./write-draft.ts";

/** Options of {@link importChanged}. */
export interface ImportChangedOptions extends Pick<ImportOptions, "store" | "env"> {
  /**
   * File that records size and time of each imported file. It can be rebuilt: when it is missing or invalid, every file
   * is read once more. A lease on it allows only one import at a time.
   */
  record: string;
  /** Returns whether to import a file now. Default: every file. */
  isWanted?: (path: string) => boolean;
  /** Milliseconds to wait while another process imports. Default 0. */
  waitMs?: number;
}

/**
 * Imports sessions of agents with another format whose files changed since their import, from the folders of these agents;
 * the newest changes come first. Well-known forms of keys are removed. Unreadable files are tried again when they change. The import stops when the caller stops reading.
 *
 * @throws EspalierError `busy` while another process imports; errors of the store when it cannot be written
 */
export async function* importChanged(options: ImportChangedOptions): AsyncGenerator<ImportReport, void> {
  const { store, record, waitMs = 0 } = options;
  const imported = readRecord(record);
  const changed = changedFiles(options, imported);
  if (changed.length === 0) return;
  makeFolder(dirname(record));
  const lease = await takeFileLease(record, { waitMs });
  const files = new SourceFiles();
  const scratch = new ScratchSpace(() => new TemporaryFile());
  const to = { store, redactor: new Redactor(redactText), scratch };
  // Another process may have imported some of them meanwhile.
  const done = readRecord(record);
  try {
    for (const { agent, found, stamps } of changed)
      for (const file of planAgent(agent, found, files, scratch)) {
        const stamp = stamps.get(file.path);
        if (stamp === undefined || done.get(file.path) === stamp) continue;
        yield* importFile(file, files, to, {});
        done.set(file.path, stamp);
      }
  } finally {
    files.close();
    scratch.close();
    writeDerived(record, JSON.stringify(Object.fromEntries(done)));
    await lease.release();
  }
}

/** Changed files of one folder; those to which others in the folder refer are imported first. */
interface ChangedFolder {
  agent: LocalAgent;
  found: FoundFile[];
  /** Size and time of each file before it was read. */
  stamps: Map<string, string>;
  newest: number;
}

function changedFiles(
  { env = process.env, isWanted = () => true }: ImportChangedOptions,
  imported: ReadonlyMap<string, string>,
): ChangedFolder[] {
  const folders = new Map<string, ChangedFolder>();
  for (const agent of convertedAgents)
    for (const place of agent.folders(env))
      for (const file of findFiles(place, (path) => agent.isSession(path) && isWanted(path))) {
        const facts = factsOf(file.path);
        if (!facts) continue;
        const stamp = `${facts.size} ${facts.mtimeMs}`;
        if (imported.get(file.path) === stamp) continue;
        const key = agent.siblingFolders(file.path)[0] ?? dirname(file.path);
        const folder: ChangedFolder = folders.get(key) ?? { agent, found: [], stamps: new Map(), newest: 0 };
        folder.found.push(file);
        folder.stamps.set(file.path, stamp);
        folder.newest = Math.max(folder.newest, facts.mtimeMs);
        folders.set(key, folder);
      }
  return [...folders.values()].sort((a, b) => b.newest - a.newest);
}

/** Returns size and time of imported files, by path; empty when the record is missing or invalid. */
function readRecord(path: string): Map<string, string> {
  if (!existsSync(path)) return new Map();
  try {
    const value: unknown = JSON.parse(readFileSync(path, "utf8"));
    const entries = isRecord(value) ? Object.entries(value) : [];
    return new Map(entries.filter((entry): entry is [string, string] => typeof entry[1] === "string"));
  } catch (error) {
    // An unreadable record only costs time.
    if (error instanceof SyntaxError || (error as NodeJS.ErrnoException).code !== undefined) return new Map();
    throw error;
  }
}
