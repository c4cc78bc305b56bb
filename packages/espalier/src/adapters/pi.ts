// Pi's `SessionManager` and compaction functions, with Pi's names and shapes, over synchronous session files or memory.

import { randomUUID } from "node:crypto";
import { statSync } from "node:fs";
import { dirname, join } from "node:path";
import { currentSystemMessage } from "@espalier/compaction";
import { EspalierError, formatLine } from "@espalier/jsonl-stream";
import {
  type BashExecutionMessage,
  type ContextEditEntry,
  type CustomMessage,
  createId,
  type Entry,
  FORMAT_VERSION,
  isMessage,
  isSessionId,
  kindOf,
  message,
  type SessionHeader,
  type StoredMessage,
  Tree,
  type Usage,
  type UserContent,
  WRITER,
} from "@espalier/session-tree";
import { makeFolder, sessionFileName } from "@espalier/session-tree/node";
import { refuseOtherVersions } from "./host.ts";
import {
  absolutePath,
  createFile,
  defaultSessionDir,
  findMostRecentSession,
  findSessionFile,
  type Lines,
  listFolder,
  memoryLines,
  openFile,
  openSource,
  type SessionInfo,
  type SessionListProgress,
  sessionsRoot,
} from "./pi/files.ts";
import { SessionReader, withoutLabels } from "./pi/tree.ts";

export {
  buildContextEntries,
  buildSessionContext,
  buildSessionProjection,
  CURRENT_SESSION_VERSION,
  type CutPointResult,
  collectEntriesForBranchSummary,
  compact,
  DEFAULT_COMPACTION_SETTINGS,
  estimateTokens,
  findCutPoint,
  getLatestCompactionEntry,
  migrateSessionEntries,
  type PiAnswer,
  type PiAnswering,
  type PiCompactionPreparation,
  type PiCompactionResult,
  type PiCompactionSettings,
  type PiModel,
  type PiSessionContext,
  type PiStream,
  parseSessionEntries,
  prepareCompaction,
  type SessionProjection,
  serializeConversation,
  shouldCompact,
} from "./pi/compaction.ts";
export type { SessionInfo, SessionListProgress } from "./pi/files.ts";
export type { SessionReader, SessionTreeNode } from "./pi/tree.ts";

for (const host of ["@earendil-works/pi-coding-agent", "@mariozechner/pi-coding-agent"])
  refuseOtherVersions(host, "0.58.0", "1.7.0");

/** Options of a new session. */
export interface NewSessionOptions {
  /** Default: a random UUID. */
  id?: string;
  /** Path of the session from which this one was forked. */
  parentSession?: string;
}

/** The read-only part of a manager, which Pi passes to extensions. */
export type ReadonlySessionManager = Omit<SessionReader, "branch" | "resetLeaf"> &
  Pick<SessionManager, "getCwd" | "getSessionDir" | "getSessionFile" | "getSessionId">;

/**
 * Pi's `SessionManager` over a session file of Espalier, or over memory. When an append returns, its line was written to the
 * file and read back, and it survives the end of the process. After `await flush()` it survives a power loss.
 *
 * One process writes a file at a time: opening a file that another process writes throws `busy` with its `holder`. Managers of
 * one process share a file, each with its own leaf, as in Pi. A file is released by `close()`, by the end of the process, and
 * by the garbage collection of its managers.
 *
 * The statics return the host's own class where that is expected (`Host`, inferred): to TypeScript, two classes with private
 * fields are different types.
 */
export class SessionManager extends SessionReader {
  #cwd: string;
  #sessionDir: string;
  readonly #persist: boolean;
  #file: string | undefined;
  #lines!: Lines;

  private constructor(cwd: string, sessionDir: string, persist: boolean) {
    super();
    this.#cwd = absolutePath(cwd);
    this.#sessionDir = sessionDir;
    this.#persist = persist;
    if (persist && sessionDir !== "") makeFolder(sessionDir);
  }

  /** Creates a session. Its file is written with the first message of a user or a model. */
  static create<Host = SessionManager>(cwd: string, sessionDir?: string, options?: NewSessionOptions): Host {
    const manager = new SessionManager(cwd, placeOf(cwd, sessionDir).folder, true);
    manager.newSession(options);
    return manager as unknown as Host;
  }

  /**
   * Opens a file. A missing file is created with the first message of a user or a model; an empty file gets a header.
   * @throws EspalierError `busy`, `not-a-session`, `version`, `unreadable`
   */
  static open<Host = SessionManager>(path: string, sessionDir?: string, cwdOverride?: string): Host {
    const file = absolutePath(path);
    const folder = sessionDir === undefined ? dirname(file) : absolutePath(sessionDir);
    const manager = new SessionManager(cwdOverride ?? process.cwd(), folder, true);
    manager.setSessionFile(file);
    const { cwd } = manager.getHeader();
    if (cwdOverride === undefined && cwd !== "") manager.#cwd = absolutePath(cwd);
    return manager as unknown as Host;
  }

  /** Opens the newest session of a folder, or creates one. */
  static continueRecent<Host = SessionManager>(cwd: string, sessionDir?: string): Host {
    const { folder, filter } = placeOf(cwd, sessionDir);
    const recent = findMostRecentSession(folder, filter);
    if (recent === null) return SessionManager.create(cwd, folder);
    return SessionManager.open(recent, folder, cwd);
  }

  /** Creates a session without a file, from the given entries if there are any. A header among them is used. */
  static inMemory<Host = SessionManager>(
    cwd: string = process.cwd(),
    options?: NewSessionOptions,
    entries: readonly (SessionHeader | Entry)[] = [],
  ): Host {
    const manager = new SessionManager(cwd, "", false);
    manager.newSession(options);
    const header = entries.find(({ type }) => type === "session") as SessionHeader | undefined;
    const lines = entries.filter(({ type }) => type !== "session").map(plainLine);
    if (entries.length > 0) manager.#goOn(memoryLines(header ?? manager.getHeader(), lines), undefined);
    return manager as unknown as Host;
  }

  /** Creates a session for another working folder with all entries of a file. @throws EspalierError `not-a-session` */
  static forkFrom<Host = SessionManager>(
    sourcePath: string,
    targetCwd: string,
    sessionDir?: string,
    options?: NewSessionOptions,
  ): Host {
    const path = absolutePath(sourcePath);
    const manager = new SessionManager(targetCwd, placeOf(targetCwd, sessionDir).folder, true);
    const source = openSource(path);
    try {
      const tree = new Tree(source.view);
      const header = manager.#newHeader({ ...options, parentSession: path });
      const file = join(manager.#sessionDir, sessionFileName(header));
      const lines = Array.from({ length: tree.length }, (_, row) => tree.bytesAt(row));
      manager.#goOn(createFile(file, header, lines), file);
    } finally {
      void source.close();
    }
    return manager as unknown as Host;
  }

  /** The file of the session with this id; undefined if there is none. */
  static findById(cwd: string, id: string, sessionDir?: string): string | undefined {
    const { folder, filter } = placeOf(cwd, sessionDir);
    return findSessionFile(folder, id, filter);
  }

  /** Sessions of a working folder, last active first. */
  static async list(
    cwd: string,
    sessionDir?: string,
    onProgress?: SessionListProgress,
    signal?: AbortSignal,
  ): Promise<SessionInfo[]> {
    const { folder, filter } = placeOf(cwd, sessionDir);
    return listFolder([folder], { filter, onProgress, signal });
  }

  /** Sessions of all working folders, or of one folder with session files; last active first. */
  static async listAll(
    first?: string | SessionListProgress,
    second?: SessionListProgress | AbortSignal,
    third?: AbortSignal,
  ): Promise<SessionInfo[]> {
    const given = [first, second, third];
    const onProgress = given.find((one): one is SessionListProgress => typeof one === "function");
    const signal = given.find((one): one is AbortSignal => one instanceof AbortSignal);
    const folders = typeof first === "string" ? [absolutePath(first)] : sessionsRoot();
    return listFolder(folders, { filter: undefined, onProgress, signal });
  }

  /** Switches to another file; see {@link SessionManager.open}. */
  setSessionFile(sessionFile: string): void {
    const file = absolutePath(sessionFile);
    const size = statSync(file, { throwIfNoEntry: false })?.size;
    if (size) this.#goOn(openFile(file), file);
    else {
      const header = this.#newHeader({});
      this.#goOn(size === 0 ? createFile(file, header, []) : memoryLines(header, []), file);
    }
  }

  /** Begins another session. Returns its future file; undefined in memory. */
  newSession(options: NewSessionOptions = {}): string | undefined {
    this.#begin(this.#newHeader(options), []);
    return this.#file;
  }

  /** Returns whether the session has a file, or will have one. */
  isPersisted(): boolean {
    return this.#persist;
  }

  /** The agent's working folder. */
  getCwd(): string {
    return this.#cwd;
  }

  /** The folder for new files. */
  getSessionDir(): string {
    return this.#sessionDir;
  }

  /** Returns whether new files go to Pi's folder for this working folder. */
  usesDefaultSessionDir(): boolean {
    return this.#sessionDir === defaultSessionDir(this.#cwd);
  }

  /** The id in the header. */
  getSessionId(): string {
    return this.getHeader().id;
  }

  /** The session's file, even if it is not created yet; undefined in memory. */
  getSessionFile(): string | undefined {
    return this.#file;
  }

  /**
   * Appends a message below the leaf. Returns the entry's id. Summaries have their own methods.
   * @throws EspalierError `invalid-entry`
   */
  appendMessage(said: StoredMessage | CustomMessage | BashExecutionMessage): string {
    return this.#append({ type: "message", message: said }).id;
  }

  /** Changes the thinking level for the entries below. */
  appendThinkingLevelChange(thinkingLevel: string): string {
    return this.#append({ type: "thinking_level_change", thinkingLevel }).id;
  }

  /** Changes the model for the entries below. */
  appendModelChange(provider: string, modelId: string): string {
    return this.#append({ type: "model_change", provider, modelId }).id;
  }

  /** Appends usage that belongs to no message. */
  appendUsage(kind: string, provider: string, model: string, billed: Usage, note?: string): Entry {
    return this.#append({
      type: "usage",
      kind,
      provider,
      model,
      usage: billed,
      ...(note ? { note } : {}),
    });
  }

  /**
   * Appends a compaction. `firstKeptEntryId` null keeps no entries.
   * @throws EspalierError `off-path` for a first kept entry that is not on the leaf's path
   */
  appendCompaction(
    summary: string,
    firstKeptEntryId: string | null,
    tokensBefore: number,
    details?: unknown,
    fromHook?: boolean,
    billed?: Usage,
  ): string {
    const id = createId();
    const kept = firstKeptEntryId ?? id;
    if (kept !== id && !this.isOnPath(kept)) {
      const text = `The first kept entry ${JSON.stringify(kept)} is not on the path of the compaction; name one that is, or null to keep nothing.`;
      throw new EspalierError("off-path", text);
    }
    const system = currentSystemMessage(this.buildSessionContext().messages);
    return this.#append({
      type: "compaction",
      id,
      summary,
      firstKeptEntryId: kept,
      tokensBefore,
      details,
      usage: billed,
      fromHook,
      ...(system ? { systemMessage: { ...system, timestamp: Date.now() } } : {}),
    }).id;
  }

  /** Appends state of an extension. No model reads it. */
  appendCustomEntry(customType: string, data?: unknown): string {
    return this.#append({ type: "custom", customType, data }).id;
  }

  /** Names the session. An empty name removes the name. */
  appendSessionInfo(name: string): string {
    return this.#append({ type: "session_info", name: name.replace(/[\r\n]+/g, " ").trim() }).id;
  }

  /** Appends a message of an extension. The model reads it as a user message. */
  appendCustomMessageEntry(
    customType: string,
    content: UserContent,
    display: boolean,
    details?: unknown,
  ): string {
    return this.#append({ type: "custom_message", customType, content, display, details }).id;
  }

  /**
   * Replaces the content of an earlier entry of the branch from here on; null leaves the entry out.
   * @throws EspalierError `unknown-entry`, `off-path`; `bad-input` for an entry without editable content
   */
  appendContextEdit(targetId: string, replacement: ContextEditEntry["replacement"]): string {
    const target = this.known(targetId);
    if (!this.isOnPath(targetId))
      throw new EspalierError("off-path", `Entry ${targetId} is not on the active branch; go there first.`);
    const role = message.is(target) ? target.message.role : target.type;
    if (!["user", "assistant", "toolResult", "custom_message"].includes(role)) {
      const text = `Entry ${targetId} does not contribute editable model content; edit what a user, a model or a tool said.`;
      throw new EspalierError("bad-input", text);
    }
    const asBlocks = role === "assistant" || role === "toolResult";
    const edited =
      replacement !== null && asBlocks && typeof replacement.content === "string"
        ? { content: [{ type: "text", text: replacement.content }] }
        : replacement;
    return this.#append({ type: "context_edit", targetId, replacement: edited }).id;
  }

  /** Labels an entry. Undefined or an empty text removes the label. @throws EspalierError `unknown-entry` */
  appendLabelChange(targetId: string, text: string | undefined): string {
    this.known(targetId);
    return this.#append({ type: "label", targetId, label: text }).id;
  }

  /** Moves the leaf and appends a summary of the abandoned branch, in one write. */
  branchWithSummary(
    branchFromId: string | null,
    summary: string,
    details?: unknown,
    fromHook?: boolean,
    billed?: Usage,
  ): string {
    if (branchFromId !== null) this.known(branchFromId);
    const fromId = this.getLeafId() ?? "root";
    const fields = { parentId: branchFromId, fromId, summary, details, usage: billed, fromHook };
    return this.#append({ type: "branch_summary", ...fields }).id;
  }

  /**
   * Continues in a new session with the path to an entry, followed by the labels of that path. Returns the new file,
   * which is created at once if the path has a message of a user or a model; undefined in memory.
   */
  createBranchedSession(leafId: string): string | undefined {
    this.known(leafId);
    const path = withoutLabels(this.getBranch(leafId));
    const ids = new Set(path.map(({ id }) => id));
    const lines = path.map(plainLine);
    let parentId = path.at(-1)?.id ?? null;
    for (const [targetId, { label: text, timestamp }] of this.labels) {
      if (!ids.has(targetId)) continue;
      const entry = { type: "label", id: createId(), parentId, timestamp, targetId, label: text };
      lines.push(plainLine(entry));
      parentId = entry.id;
    }
    const parentSession = this.#persist ? this.#file : undefined;
    const parent = { sessionId: this.getSessionId(), entryId: leafId, kind: "fork" } as const;
    this.#begin(this.#newHeader(parentSession === undefined ? {} : { parentSession }, parent), lines);
    return this.#persist ? this.#file : undefined;
  }

  /** Resolves when all appended entries survive a power loss. @throws EspalierError `sync-failed` */
  async flush(): Promise<void> {
    await this.#lines.flush();
  }

  /** Closes this manager and releases its file. Later appends throw `closed`. */
  close(): void {
    this.#lines?.close();
  }

  /** Same as `close`. */
  [Symbol.dispose](): void {
    this.close();
  }

  #newHeader(
    { id = randomUUID(), parentSession }: NewSessionOptions,
    parent?: SessionHeader["parent"],
  ): SessionHeader {
    if (!isSessionId(id)) {
      const text = `Session id must be non-empty, contain only alphanumeric characters, '-', '_', and '.', and start and end with an alphanumeric character; ${JSON.stringify(id)} cannot name a file.`;
      throw new EspalierError("bad-input", text);
    }
    return {
      type: "session",
      version: FORMAT_VERSION,
      id,
      timestamp: new Date().toISOString(),
      cwd: this.#cwd,
      writer: WRITER,
      ...(parentSession === undefined ? {} : { parentSession }),
      ...(parent ? { parent } : {}),
    };
  }

  /** Closes the current session and begins one with these lines. Its file is created if they hold a conversation. */
  #begin(header: SessionHeader, lines: readonly (string | Uint8Array)[]): void {
    const memory = memoryLines(header, lines);
    const file = this.#persist ? join(this.#sessionDir, sessionFileName(header)) : undefined;
    const isDue = file !== undefined && [...new Tree(memory.view).entries()].some(isConversation);
    this.#goOn(isDue ? createFile(file, header, lines) : memory, file);
  }

  /** Closes the current lines and continues with others. */
  #goOn(lines: Lines, file: string | undefined): void {
    this.close();
    this.#file = file;
    this.#lines = lines;
    this.readAll(lines);
  }

  /** Writes an entry, reads it back, and moves the leaf to it. If it throws, nothing has changed. */
  #append(fields: { type: string; [field: string]: unknown }): Entry {
    const given = {
      id: createId(),
      parentId: this.getLeafId(),
      timestamp: new Date().toISOString(),
      ...fields,
    };
    const line = plainLine(given);
    // The entry in memory equals the line: a caller may change its value later, and writing heals damaged text.
    const entry = JSON.parse(line) as Entry;
    const problem = kindOf(entry).problem?.(entry);
    if (problem)
      throw new EspalierError("invalid-entry", `The ${entry.type} entry is not valid: ${problem}.`);
    if (this.#persist && !this.#lines.isOnDisk && isConversation(entry)) {
      const lines = [...this.getEntries().map(plainLine), line];
      this.#goOn(createFile(this.#file!, this.getHeader(), lines), this.#file);
    } else {
      this.#lines.append(line);
      this.takeIn(this.#lines, entry);
    }
    return this.getEntry(entry.id)!;
  }
}

/** A value as a line. Dates, functions and the like become what `JSON.stringify` makes of them. */
function plainLine(value: object): string {
  return formatLine(JSON.parse(JSON.stringify(value)), { bytes: Number.POSITIVE_INFINITY });
}

/** Returns whether an entry is a message of a user or a model. The first one creates the file. */
const isConversation = (entry: Entry): boolean => isMessage(entry, "user") || isMessage(entry, "assistant");

/** The folder of sessions, Pi's by default. Another folder may have sessions of several working folders. */
function placeOf(cwd: string, sessionDir?: string): { folder: string; filter: string | undefined } {
  const own = defaultSessionDir(cwd);
  const folder = sessionDir ? absolutePath(sessionDir) : own;
  return { folder, filter: folder === own ? undefined : cwd };
}
