// Separate from pi.ts: a folder of sessions is one noun, a session another.
// Pi's sessions on disk: folders, lists, and files that are appended to synchronously.
import { existsSync, readdirSync, realpathSync, statSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { type ByteView, EspalierError, encodeLines } from "@espalier/jsonl-stream";
import { createWhole, openAppendFile, withView } from "@espalier/jsonl-stream/node";
import {
  assertWritable,
  GrowingBytes,
  message,
  type SessionHeader,
  sessionName,
  Tree,
  upgradeLog,
} from "@espalier/session-tree";
import { FileLog, headerOfFile, makeFolder, takeFileLeaseSync } from "@espalier/session-tree/node";

/** A session in a list of Pi. */
export interface SessionInfo {
  path: string;
  id: string;
  /** Empty for old sessions. */
  cwd: string;
  name?: string;
  parentSessionPath?: string;
  created: Date;
  /**
   * Time of the newest message of a user or a model; without one, the time in the header, or that of the file's last
   * change.
   */
  modified: Date;
  /** Number of messages of all roles, on all branches. */
  messageCount: number;
  /** Text of the first message of the user that has text; `(no messages)` without one. */
  firstMessage: string;
  /** Texts of users and models, joined by spaces. */
  allMessagesText: string;
}

/**
 * Progress of a list: number of files read, number of all files, and after the first, every tenth and the last file the
 * sessions read so far.
 */
export type SessionListProgress = (
  loaded: number,
  total: number,
  partialSessions?: readonly SessionInfo[],
) => void;

/**
 * Makes a path or a `file://` URL absolute; `~` is the home folder. @throws EspalierError `bad-input` for the address
 * of a database
 */
export function absolutePath(path: string): string {
  if (/^postgres(ql)?:\/\//i.test(path)) {
    const text =
      "Pi's SessionManager writes synchronously, which a database cannot do; give it a folder or a file, or use `openSession` with this address.";
    throw new EspalierError("bad-input", text);
  }
  if (path.startsWith("file://")) return fileURLToPath(path);
  if (path === "~" || path.startsWith("~/")) return join(homedir(), path.slice(1));
  return resolve(path);
}

function agentDir(): string {
  const given = process.env["PI_CODING_AGENT_DIR"];
  return given ? absolutePath(given) : join(homedir(), ".pi", "agent");
}

/** Pi's folder for the sessions of a working folder. It may not exist yet. */
export function defaultSessionDir(cwd: string): string {
  const name = absolutePath(cwd)
    .replace(/^[/\\]/, "")
    .replace(/[/\\:]/g, "-");
  return join(agentDir(), "sessions", `--${name}--`);
}

/** Folders of Pi's sessions, one for each working folder; none if Pi has no sessions. */
export function sessionsRoot(): string[] {
  const root = join(agentDir(), "sessions");
  if (!existsSync(root)) return [];
  return readdirSync(root, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() || entry.isSymbolicLink())
    .map(({ name }) => join(root, name));
}

/** Session files of a folder, in descending order of their names; none if the folder does not exist. */
function filesIn(folder: string): string[] {
  if (!existsSync(folder)) return [];
  const names = readdirSync(folder).filter((name) => name.endsWith(".jsonl"));
  return names.sort((a, b) => b.localeCompare(a)).map((name) => join(folder, name));
}

const isOf = (header: SessionHeader, cwd: string | undefined): boolean =>
  cwd === undefined || (header.cwd !== "" && absolutePath(header.cwd) === absolutePath(cwd));

/** The newest session file of a folder, or of those with this `cwd`, by the time of the last change; null if there is none. */
export function findMostRecentSession(sessionDir: string, cwd?: string): string | null {
  const files = filesIn(absolutePath(sessionDir))
    .map((path) => ({ path, time: statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0 }))
    .sort((a, b) => b.time - a.time);
  for (const { path } of files) {
    const header = headerOfFile(path);
    if (header && header.id !== "" && isOf(header, cwd)) return path;
  }
  return null;
}

/**
 * The file in a folder whose header has this id and, if `cwd` is given, this working folder; undefined if there is
 * none.
 */
export function findSessionFile(folder: string, id: string, cwd: string | undefined): string | undefined {
  return filesIn(folder).find((path) => {
    const header = headerOfFile(path);
    return header?.id === id && isOf(header, cwd);
  });
}

/** Options of a list. */
interface ListOptions {
  /** Lists only sessions of this working folder. */
  filter: string | undefined;
  onProgress: SessionListProgress | undefined;
  signal: AbortSignal | undefined;
}

/** Files between two reports of the sessions so far. */
const REPORTED = 10;

/** Sessions in folders, last active first. Throws the reason of the signal when it is aborted. */
export async function listFolder(
  folders: readonly string[],
  { filter, onProgress, signal }: ListOptions,
): Promise<SessionInfo[]> {
  const files = folders.flatMap(filesIn);
  const found: SessionInfo[] = [];
  const sorted = () => [...found].sort((a, b) => b.modified.getTime() - a.modified.getTime());
  for (const [at, path] of files.entries()) {
    signal?.throwIfAborted();
    const header = headerOfFile(path);
    if (header && isOf(header, filter)) found.push(infoOf(path, header));
    const isReported = at === 0 || (at + 1) % REPORTED === 0 || at + 1 === files.length;
    onProgress?.(at + 1, files.length, isReported ? sorted() : undefined);
    // Other work of the process runs between two files.
    await new Promise(setImmediate);
  }
  return sorted();
}

function infoOf(path: string, header: SessionHeader): SessionInfo {
  return withView(path, (view) => {
    const tree = new Tree(upgradeLog(view, header)?.view ?? view);
    const name = sessionName(tree)?.trim();
    const texts: string[] = [];
    let [messageCount, active, firstMessage] = [0, 0, ""];
    for (const entry of tree.entries()) {
      if (!message.is(entry)) continue;
      messageCount++;
      const { role, timestamp } = entry.message;
      if (role !== "user" && role !== "assistant") continue;
      active = Math.max(active, typeof timestamp === "number" ? timestamp : Date.parse(entry.timestamp) || 0);
      const text = spokenText(entry.message.content);
      if (text === "") continue;
      texts.push(text);
      if (role === "user") firstMessage ||= text;
    }
    return {
      path,
      id: header.id,
      cwd: header.cwd,
      ...(name ? { name } : {}),
      ...(header.parentSession === undefined ? {} : { parentSessionPath: header.parentSession }),
      created: new Date(header.timestamp),
      modified: new Date(active || Date.parse(header.timestamp) || statSync(path).mtimeMs),
      messageCount,
      firstMessage: firstMessage || "(no messages)",
      allMessagesText: texts.join(" "),
    };
  });
}

/** Text of a message. Blocks are joined by a space, as in Pi. */
function spokenText(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content
    .filter((block): block is { text: string } => block?.type === "text" && typeof block.text === "string")
    .map(({ text }) => text)
    .join(" ");
}

/** Lines of a session. An append is complete when the call returns. */
export interface Lines {
  readonly header: SessionHeader;
  readonly view: ByteView;
  /** True if a file holds the lines. */
  readonly isOnDisk: boolean;
  append(line: string): void;
  flush(): Promise<void>;
  close(): void;
}

/** Lines in memory. */
export function memoryLines(header: SessionHeader, lines: readonly (string | Uint8Array)[]): Lines {
  const bytes = new GrowingBytes(encodeLines([JSON.stringify(header)]));
  const add = (line: string | Uint8Array) => {
    bytes.add(typeof line === "string" ? encodeLines([line]) : line);
    bytes.startLine();
  };
  for (const line of lines) add(line);
  return {
    header,
    get view() {
      return bytes.view();
    },
    isOnDisk: false,
    append: add,
    flush: async () => undefined,
    close: () => undefined,
  };
}

/** Creates a session's file with all lines, synced to disk. An empty file is filled. @throws EspalierError `exists`, `busy` */
export function createFile(
  path: string,
  header: SessionHeader,
  lines: readonly (string | Uint8Array)[],
): Lines {
  makeFolder(dirname(path));
  const { view } = memoryLines(header, lines);
  const bytes = view.read(0, view.size);
  if (statSync(path, { throwIfNoEntry: false })?.size !== 0) createWhole(path, [bytes]);
  else {
    const file = openAppendFile(path, { mode: "write" });
    try {
      file.append(bytes);
      file.sync();
    } finally {
      file.close();
    }
  }
  return openFile(path);
}

/** Opens a session's file for writing, under the lease of this process. */
export const openFile = (path: string): Lines => heldLines(openSource(path, "write"));

/**
 * Opens a session's file and checks its header. @throws EspalierError `not-a-session`, `version`, `not-found`,
 * `not-a-file`, `unreadable`
 */
export function openSource(path: string, mode: "read" | "write" = "read"): FileLog {
  const log = FileLog.open(path, mode);
  try {
    if (!log.header) {
      const text = `Session file is not a valid pi session: ${path}; its first line is not a header. \`espalier doctor ${path}\` lists its problems.`;
      throw new EspalierError("not-a-session", text);
    }
    assertWritable(log);
    return log;
  } catch (error) {
    void log.close();
    throw error;
  }
}

/** The lines of a file, under this process's lease. */
function heldLines(log: FileLog): Lines {
  let release: () => void;
  try {
    // A file has several names where a folder above it is a link.
    release = holdFile(realpathSync(log.ref));
  } catch (error) {
    void log.close();
    throw error;
  }
  let isClosed = false;
  const close = () => {
    if (isClosed) return;
    isClosed = true;
    void log.close();
    release();
  };
  const lines: Lines = {
    header: log.header!,
    get view() {
      return log.view;
    },
    isOnDisk: true,
    append: (line) => void log.appendSync([line]),
    flush: () => log.flush(),
    close,
  };
  abandoned.register(lines, close);
  return lines;
}

/** Releases the files of garbage-collected managers: programs written for Pi do not close a manager. */
const abandoned = new FinalizationRegistry<() => void>((close) => close());

/** Leases of this process, by file. Managers of one file share a lease. */
const leases = new Map<string, { managers: number; release: () => void }>();

function holdFile(path: string): () => void {
  const held = leases.get(path) ?? { managers: 0, release: takeFileLeaseSync(path) };
  if (leases.size === 0) process.once("exit", releaseAll);
  leases.set(path, held);
  held.managers++;
  return () => {
    if (--held.managers > 0) return;
    leases.delete(path);
    if (leases.size === 0) process.off("exit", releaseAll);
    held.release();
  };
}

function releaseAll(): void {
  for (const { release } of leases.values()) release();
}
