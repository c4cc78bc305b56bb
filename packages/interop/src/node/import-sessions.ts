import { homedir } from "node:os";
import { basename, dirname, join, resolve, sep } from "node:path";
import { setTimeout } from "node:timers/promises";
import type { EspalierErrorCode } from "@espalier/jsonl-stream";
import { EspalierError } from "@espalier/jsonl-stream";
import {
  type ContextMessage,
  compaction,
  contextOfPath,
  type Entry,
  kindOf,
  type Redact,
  Redactor,
  redactText,
  type SessionStore,
} from "@espalier/session-tree";
import { factsOf } from "@espalier/session-tree/node";
import { claudeCodeImporter } from "../claude-code/importer.ts";
import { codexImporter } from "../codex/importer.ts";
import { THREAD_INDEX } from "../codex/rollout.ts";
import {
  firstLines,
  NO_SIBLINGS,
  type SessionDraft,
  type SessionImporter,
  type SiblingFiles,
  type SourceFile,
} from "../import/draft.ts";
import { mentions } from "../import/entry.ts";
import { type ImportIssueKind, ImportIssues } from "../import/issue.ts";
import { piImporter } from "../pi/pi-sessions.ts";
import { ScratchSpace } from "../scratch/space.ts";
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
 * Imports sessions of other agents: of `claude-code`, `codex` or `pi` from their own folders, or from a file or folder.
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
export async function* importFile(
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
        drafts = 0;
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
export function planAgent(
  agent: LocalAgent,
  found: readonly FoundFile[],
  files: SourceFiles,
  scratch: ScratchSpace,
): PlannedFile[] {
  // Other files of the agent are optional: an unreadable one counts as missing.
  const near = agent
    .siblingFolders(found[0]!.path)
    .flatMap((place) => findFiles(place, agent.isSession))
    .concat(found);
  const unique = [...new Map(near.map((file) => [file.path, file])).values()];
  const siblings: SiblingFiles = {
    files: agent.inOrder(unique).map(({ path }) => path),
    open: (path) => openOrNothing(path, files),
    scratch,
  };
  const importer = agent.importer(siblings);
  return agent.inOrder(found).map(({ path }) => ({ path, importer }));
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

/** Environment variables, as in `process.env`. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** An agent on this machine: the folders of its sessions, and its importer. */
export interface LocalAgent {
  readonly agent: string;
  /** Its name for people. */
  readonly title: string;
  /** Returns folders with sessions, depending on the environment. They need not exist. */
  folders(env: Environment): string[];
  /** Returns whether a file of this name can be a session; other files are skipped. */
  isSession(path: string): boolean;
  /** Returns folders with other files that this one may need. */
  siblingFolders(path: string): string[];
  /** Sorts files so that those to which others refer come first. */
  inOrder(files: readonly FoundFile[]): FoundFile[];
  /** Returns the importer of this agent, with access to other files. */
  importer(siblings: SiblingFiles): SessionImporter;
}

const homeOf = (env: Environment): string => env["HOME"] || homedir();
const byAge = (a: FoundFile, b: FoundFile): number => a.born - b.born || (a.path < b.path ? -1 : 1);

/** Claude Code: sessions in `<folder>/<session>.jsonl`, sub-agents in `<folder>/<session>/subagents`. */
const claudeCode: LocalAgent = {
  agent: "claude-code",
  title: "Claude Code",
  folders: (env) => [join(env["CLAUDE_CONFIG_DIR"] || join(homeOf(env), ".claude"), "projects")],
  isSession: (path) => path.endsWith(".jsonl"),
  siblingFolders: (path) => [dirname(conversationOf(path))],
  inOrder(files) {
    const ages = new Map(files.map(({ path, born }) => [path.replace(/\.jsonl$/, ""), born]));
    const ageOf = (path: string) => ages.get(conversationOf(path)) ?? 0;
    return [...files].sort((a, b) => {
      const [first, second] = [conversationOf(a.path), conversationOf(b.path)];
      if (first !== second) return ageOf(a.path) - ageOf(b.path) || (first < second ? -1 : 1);
      // First a conversation, then its sub-agents in the order of their creation.
      return Number(isSubAgent(a.path)) - Number(isSubAgent(b.path)) || byAge(a, b);
    });
  },
  importer: claudeCodeImporter,
};
const SUBAGENTS = `${sep}subagents${sep}`;
const isSubAgent = (path: string): boolean => path.includes(SUBAGENTS);

/** Returns the path, without extension, of the conversation that a file is or belongs to. */
function conversationOf(path: string): string {
  const at = path.lastIndexOf(SUBAGENTS);
  return at < 0 ? path.replace(/\.jsonl$/, "") : path.slice(0, at);
}

/** Folders of rollouts; the file with the names of threads is next to them. */
const CODEX_FOLDERS = ["sessions", "archived_sessions"];

const codex: LocalAgent = {
  agent: "codex",
  title: "Codex",
  folders: (env) => {
    const home = env["CODEX_HOME"] || join(homeOf(env), ".codex");
    return CODEX_FOLDERS.map((folder) => join(home, folder));
  },
  isSession: (path) => /\.jsonl(\.zst)?$/.test(path) && basename(path) !== THREAD_INDEX,
  siblingFolders(path) {
    const parts = path.split(sep);
    const at = parts.findLastIndex((part) => CODEX_FOLDERS.includes(part));
    const home = at > 0 ? parts.slice(0, at).join(sep) : undefined;
    const folders = home === undefined ? [dirname(path)] : CODEX_FOLDERS.map((folder) => join(home, folder));
    return [...folders, join(home ?? dirname(path), THREAD_INDEX)];
  },
  // File names begin with the time, followed by ids that increase with time.
  inOrder: (files) => [...files].sort((a, b) => (basename(a.path) < basename(b.path) ? -1 : 1)),
  importer: codexImporter,
};

const pi: LocalAgent = {
  agent: "pi",
  title: "Pi",
  folders: (env) => [
    env["PI_CODING_AGENT_SESSION_DIR"] ||
      join(env["PI_CODING_AGENT_DIR"] || join(homeOf(env), ".pi", "agent"), "sessions"),
  ],
  isSession: (path) => path.endsWith(".jsonl"),
  siblingFolders: (path) => [dirname(path)],
  inOrder: (files) => [...files].sort(byAge),
  importer: piImporter,
};

/** All agents whose sessions can be imported. */
export const localAgents: readonly LocalAgent[] = [claudeCode, codex, pi];

/** Agents whose sessions have another format than this program's. */
export const convertedAgents: readonly LocalAgent[] = [claudeCode, codex];

/** Opens a file; undefined when it cannot be opened. */
function openOrNothing(path: string, files: SourceFiles): SourceFile | undefined {
  try {
    return files.open(path);
  } catch (error) {
    if (error instanceof EspalierError) return undefined;
    throw error;
  }
}

/**
 * Returns the agent of a session file, by the first line that an importer recognizes; that of a compressed file by its
 * name. Undefined for a file of an unknown format, and for one that cannot be opened.
 */
export function agentOfFile(path: string, files = new SourceFiles()): LocalAgent | undefined {
  if (path.endsWith(".zst")) return localAgents.find((agent) => agent.isSession(path));
  const source = openOrNothing(path, files);
  for (const { value } of source ? firstLines(source.view) : []) {
    const agent = localAgents.find((candidate) => candidate.importer(NO_SIBLINGS).recognises(value));
    if (agent) return agent;
  }
  return undefined;
}

/** Number of sessions of one agent on this machine. */
export interface FoundSessions extends Pick<LocalAgent, "agent" | "title"> {
  /** Number of sessions, without runs of sub-agents. */
  sessions: number;
}

/**
 * Counts the sessions of Claude Code and Codex on this machine; Pi's are listed without an import. Files are counted by
 * their names and never opened. Runs of sub-agents, and files that continue the session of another file, are not counted. An agent without sessions is left out.
 *
 * @param env environment variables that name the folders of agents
 * @param onUnreadable receives the agent of each folder that cannot be read
 */
export function foundSessions(
  env: Environment = process.env,
  onUnreadable?: (agent: string) => void,
): FoundSessions[] {
  return convertedAgents.flatMap(({ agent, title, folders, isSession }) => {
    const isCounted = (path: string) =>
      isSession(path) && !isSubAgent(path) && !PART_OF_SESSION.test(basename(path));
    const unreadable: UnreadablePlace[] = [];
    const files = folders(env).flatMap((folder) => findFiles(folder, isCounted, unreadable));
    for (const _ of unreadable) onUnreadable?.(agent);
    return files.length > 0 ? [{ agent, title, sessions: files.length }] : [];
  });
}

/**
 * Names of files that are not separate sessions: an old run of a sub-agent, a Codex thread continued in another file.
 */
const PART_OF_SESSION = /^agent-|^rollout-[^_]+_[\da-f-]{36}\./;

/** Returns a text such as `8 Claude Code sessions, 3 Codex`; empty when none was found. */
export const describeFound = (found: readonly FoundSessions[]): string =>
  found
    .map(({ title, sessions }, at) =>
      at > 0 ? `${sessions} ${title}` : `${sessions} ${title} ${sessions === 1 ? "session" : "sessions"}`,
    )
    .join(", ");
