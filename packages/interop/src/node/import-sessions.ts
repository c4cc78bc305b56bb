import { dirname, resolve } from "node:path";
import { setTimeout } from "node:timers/promises";
import { EspalierError, type EspalierErrorCode } from "@espalier/jsonl-stream";
import {
  type ContextMessage,
  compaction,
  contextOfPath,
  type Entry,
  isRecord,
  kindOf,
  type Redact,
  Redactor,
  redactText,
  type SessionStore,
} from "@espalier/session-tree";
import { factsOf, makeFolder, readDerived, takeFileLease, writeDerived } from "@espalier/session-tree/node";
import type { SessionDraft, SessionImporter, SiblingFiles, SourceFile } from "../import/draft.ts";
import { mentions } from "../import/entry.ts";
import { type ImportIssueKind, ImportIssues } from "../import/issue.ts";
import { ScratchSpace } from "../scratch/space.ts";
import {
  agentOfFile,
  convertedAgents,
  type Environment,
  inOrder,
  type LocalAgent,
  localAgents,
  openOrNothing,
} from "./local-agents.ts";
import { type FoundFile, findFiles, SourceFiles, TemporaryFile, type UnreadablePlace } from "./sources.ts";
import { type Destination, type ImportReport, skippedReport, writeDraft } from "./write-draft.ts";

/** Options of an import. */
export interface ImportOptions {
  /** Store of the imported sessions. */
  store: SessionStore;
  /** Environment variables that name the folders of agents. Default: `process.env`. */
  env?: Environment;
  /** Imports only sessions of agents that worked in this folder. A session without a folder is not one of them. */
  cwd?: string;
  /** Writes summaries that replace those that only their provider can read. Default: excerpts are used. */
  summarize?: Summarize;
  /**
   * Removes secrets from lines that are converted from another agent's format; lines of the same format are copied
   * unchanged. Default: well-known forms of keys (`redactText`). False: everything is written unchanged.
   */
  redact?: Redact | false;
  /** Called before each file; `index` is from 0. */
  onProgress?(progress: { path: string; index: number; total: number }): void;
}

/**
 * Imports sessions of other agents: of an agent by its name (`claude-code`) from its own folders, or from a file or folder.
 * Yields one report per session. The import stops when the caller stops reading; written sessions stay, and the next
 * import continues.
 *
 * A further import adds new content: a session is found by its source, an entry by an id that is derived from its id in
 * the source. Existing content is never changed or removed, neither in the source nor in the store.
 *
 * @throws EspalierError `not-found`, `unreadable` (the file or folder itself), `no-room`, `exists` when both ids that a
 * session could get are taken, and errors of the store when it cannot be written
 */
export async function* importSessions(
  what: string,
  options: ImportOptions,
): AsyncGenerator<ImportReport, void> {
  const { store, env = process.env, redact = redactText, onProgress } = options;
  const files = new SourceFiles();
  const scratch = new ScratchSpace(() => new TemporaryFile());
  try {
    const planned = planImport(what, files, env, scratch);
    const redactor = redact ? new Redactor(redact) : undefined;
    const to = { store, redactor, scratch };
    for (const [index, file] of planned.entries()) {
      onProgress?.({ path: file.path, index, total: planned.length });
      yield* importFile(file, files, to, options);
    }
  } finally {
    files.close();
    scratch.close();
  }
}

/**
 * Imports the sessions of one file. A file without a session, or that cannot be read, gives a report with the status
 * `skipped`; any other error is thrown. While another process writes the same session, the file is read again.
 */
async function* importFile(
  { path, importer, problem }: PlannedFile,
  files: SourceFiles,
  to: Destination,
  { cwd, summarize }: Pick<ImportOptions, "cwd" | "summarize">,
): AsyncGenerator<ImportReport, void> {
  const agent = importer?.agent ?? null;
  try {
    if (problem) throw problem;
    const source = files.open(path);
    let drafts = 0;
    const done = new Set<string>();
    for (let attempt = 1; ; attempt++) {
      try {
        for (const draft of importer?.read(source) ?? []) {
          drafts++;
          if (done.has(draft.sourceId)) continue;
          // `resolve("")` is the current folder; a session without a folder is of none.
          if (cwd !== undefined && (draft.cwd === "" || resolve(draft.cwd) !== resolve(cwd))) continue;
          const tell = (message: string) => draft.issues.add("opaque-summary", null, message);
          const rehearse = () => importer?.read(source) ?? [];
          const summaries = summarize && (await summarizeOpaque(rehearse, source, summarize, tell));
          const report = await writeDraft(draft, summaries ? { ...to, summaries } : to);
          done.add(draft.sourceId);
          yield report;
        }
        break;
      } catch (error) {
        if (attempt === ATTEMPTS || !isWrittenByOthers(error)) throw error;
        await setTimeout(attempt * PAUSE_MS);
      }
    }
    if (drafts === 0) yield skipped(path, agent, "not-a-session", unknownFile(path));
  } catch (error) {
    const message = isTooLong(error)
      ? `${path} has a text that is too long for this program: ${(error as Error).message}.`
      : error instanceof EspalierError && OF_THE_SOURCE.has(error.code) && error.message;
    // Any other error ends the import.
    if (!message) throw error;
    yield skipped(path, agent, "unreadable", message);
  }
}

/** Maximum number of reads while another process writes the same session. */
const ATTEMPTS = 20;
/** Milliseconds by which the pause grows with each read. */
const PAUSE_MS = 20;

/** Returns whether another process created the session, or appended to it, since it was read. */
const isWrittenByOthers = (error: unknown): boolean =>
  error instanceof EspalierError && error.code === "moved";

function skipped(path: string, agent: string | null, kind: ImportIssueKind, message: string): ImportReport {
  const issues = new ImportIssues();
  issues.add(kind, null, message);
  return skippedReport(path, agent, issues.list());
}

const unknownFile = (path: string): string =>
  path.endsWith(".gz")
    ? "The file is compressed with gzip, which is not read here; decompress it with `gunzip` first."
    : "No importer knows this file: it is not a session of an agent.";

/** Error codes of reading a source; the store of the destination has others. */
const OF_THE_SOURCE: ReadonlySet<EspalierErrorCode> = new Set([
  "not-found",
  "not-a-file",
  "unreadable",
  "shrunk",
] satisfies EspalierErrorCode[]);

/** Returns whether a text is longer than the JavaScript engine allows, about 512 MB. */
function isTooLong(error: unknown): boolean {
  return (
    (error as { code?: unknown } | undefined)?.code === "ERR_STRING_TOO_LONG" ||
    (error instanceof RangeError && error.message === "Invalid string length")
  );
}

/** A file to read, or a path that could not be read. */
interface PlannedFile extends Partial<UnreadablePlace> {
  path: string;
  /**
   * Importer; undefined for a file of an unknown format, and for one that cannot be opened, which is reported when it
   * is read.
   */
  importer?: SessionImporter | undefined;
}

/**
 * Returns the files of an import with their importers: those of an agent's own folders, those below a folder, or one
 * file.
 *
 * @throws EspalierError `not-found`, `unreadable`
 */
function planImport(
  what: string,
  files: SourceFiles,
  env: Environment,
  scratch: ScratchSpace,
): PlannedFile[] {
  const agent = localAgents.find((candidate) => candidate.agent === what);
  if (!agent) return planPath(resolve(what), files, scratch);
  const folders = agent.folders(env);
  const unreadable: UnreadablePlace[] = [];
  const found = folders.flatMap((folder) => findFiles(folder, agent.isSession, unreadable));
  const planned = found.length > 0 ? planAgent(agent, found, files, scratch) : [];
  if (planned.length + unreadable.length > 0) return [...planned, ...unreadable];
  const message = `There are no sessions of ${what} in ${folders.join(" and ")}; give the path of a file or folder.`;
  throw new EspalierError("not-found", message);
}

function planPath(path: string, files: SourceFiles, scratch: ScratchSpace): PlannedFile[] {
  if (!factsOf(path)) {
    const names = localAgents.map(({ agent }) => agent).join(", ");
    throw new EspalierError(
      "not-found",
      `There is no file or folder ${path}; give a path, or one of ${names}.`,
    );
  }
  const unreadable: UnreadablePlace[] = [];
  const found = findFiles(path, (file) => localAgents.some((agent) => agent.isSession(file)), unreadable);
  if (unreadable[0]?.path === path) throw unreadable[0].problem;
  const byAgent = new Map<LocalAgent | undefined, FoundFile[]>();
  for (const file of found) {
    const agent = agentOfFile(file.path, files);
    const own = byAgent.get(agent) ?? [];
    own.push(file);
    byAgent.set(agent, own);
  }
  const planned = [...byAgent].flatMap(([agent, own]) =>
    agent ? planAgent(agent, own, files, scratch) : own.map((file) => ({ path: file.path })),
  );
  return [...planned, ...unreadable];
}

/**
 * Sorts files of one agent, at least one, and assigns the same importer to all of them. The importer can open these files,
 * and those in the sibling folders of the first one.
 */
function planAgent(
  agent: LocalAgent,
  found: readonly FoundFile[],
  files: SourceFiles,
  scratch: ScratchSpace,
): PlannedFile[] {
  // Other files of the agent are optional: an unreadable one counts as missing.
  const folders = agent.siblingFolders?.(found[0]!.path) ?? [];
  const near = folders.flatMap((place) => findFiles(place, agent.isSession)).concat(found);
  const unique = [...new Map(near.map((file) => [file.path, file])).values()];
  const siblings: SiblingFiles = {
    files: inOrder(agent, unique).map(({ path }) => path),
    open: (path) => openOrNothing(path, files),
    scratch,
  };
  const importer = agent.importer(siblings);
  return inOrder(agent, found).map(({ path }) => ({ path, importer }));
}

/** Writes a summary of messages. */
export type Summarize = (messages: ContextMessage[]) => Promise<string>;

/**
 * Returns readable summaries, by entry id, for compactions whose summary only their provider can read: the original
 * messages are still in the file. Takes a pass over the file. A failed summary is reported, and the excerpts stay.
 *
 * @param rehearse reads the source once more: a draft can be read only once
 */
async function summarizeOpaque(
  rehearse: () => Iterable<SessionDraft>,
  { view }: SourceFile,
  summarize: Summarize,
  tell: (message: string) => void,
): Promise<Map<string, string>> {
  const summaries = new Map<string, string>();
  if (!mentions(view, /"type":\s*"compacted"/)) return summaries;
  /** Entries on the path of the last read entry. */
  const path: Entry[] = [];
  const [rehearsal] = rehearse();
  if (!rehearsal) return summaries;
  for (const entry of rehearsal.entries()) {
    if (entry instanceof Uint8Array) continue;
    if (!kindOf(entry).movesLeaf) continue;
    path.length = path.findLastIndex(({ id }) => id === entry.parentId) + 1;
    if (
      compaction.is(entry) &&
      (entry.details as { opaqueSummary?: unknown } | undefined)?.opaqueSummary === true
    ) {
      try {
        summaries.set(entry.id, await summarize(contextOfPath(path).messages));
      } catch (error) {
        tell(
          `A summary could not be written (${error instanceof Error ? error.message : String(error)}); excerpts replace it.`,
        );
      }
    }
    path.push(entry);
  }
  return summaries;
}

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
 * Imports sessions of agents with another format whose files changed since their import, from the folders of these
 * agents; the newest changes come first. Well-known forms of keys are removed. Unreadable files are tried again when they
 * change. The import stops when the caller stops reading.
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
        const key = agent.siblingFolders?.(file.path)[0] ?? dirname(file.path);
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
  const value = readDerived(path);
  const entries = isRecord(value) ? Object.entries(value) : [];
  return new Map(entries.filter((entry): entry is [string, string] => typeof entry[1] === "string"));
}
