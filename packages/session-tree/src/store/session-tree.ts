import { EspalierError, formatLine } from "@espalier/jsonl-stream";
import { contextOfPath, type SessionContext } from "../context/context.ts";
import { isInWindow, LeafPath, type PathWindow, PathWindowBuilder, pathWindowAt } from "../context/window.ts";
import {
  assertWritable,
  type BaseEntry,
  type EntryKind,
  fillIn,
  type NewEntry,
  readDrafts,
  type SessionHeader,
  timestamp,
} from "../entry/entry.ts";
import { isLogError, moved, withSentence } from "../entry/error.ts";
import { branchSummary, compaction, type Entry, kindOf, leaf } from "../entry/kinds.ts";
import { entryAsWritten } from "../entry/line.ts";
import { OwnKinds } from "../entry/own-kinds.ts";
import { rowOfLeaf } from "../tree/queries.ts";
import { isOnPath, pathOf, Tree } from "../tree/tree.ts";
import { type Durability, type LogAppend, openWindow, type SessionLog } from "./store.ts";
import { WriteQueue } from "./write-queue.ts";

/**
 * A session: a log, its tree, and a leaf. Every change goes through {@link append}, and observers are notified of it.
 *
 * Opening reads only the entries that the context at the leaf needs. The whole tree is read when a call needs it. If
 * the log's bytes are elsewhere (a database), it has to be loaded first: asynchronous methods load it themselves,
 * others throw `not-loaded` until `await load()`.
 */
export class SessionTree {
  /** The log that holds the lines. */
  readonly log: SessionLog;
  #path: LeafPath;
  #tree: Tree | undefined;
  #ownKinds: OwnKinds | undefined;
  /** The leaf at the opening, or after the last {@link followLog}. */
  #followedId: string | null;
  readonly #observers = new Set<SessionObserver>();
  readonly #queue = new WriteQueue({
    failed: (error, queued) => this.#notify({ type: "persist_failed", error, queued }),
    recovered: (drained) => this.#notify({ type: "persist_recovered", drained }),
  });

  /** @param window the end of the leaf's path; see {@link openWindow} */
  constructor(log: SessionLog, window: PathWindow) {
    this.log = log;
    this.#path = new LeafPath(window);
    this.#followedId = window.leafId;
  }

  /**
   * Opens the session of a log at the log's leaf, or at `leafId`.
   * @throws EspalierError `not-a-session` when no line of the log is usable, `unknown-entry`
   */
  static async open(log: SessionLog, leafId?: string): Promise<SessionTree> {
    return new SessionTree(log, await openWindow(log, leafId));
  }

  /** Header; undefined for a log without one, which can only be read. */
  get header(): SessionHeader | undefined {
    return this.log.header;
  }

  /** Id of the session; empty when the log has no header. */
  get id(): string {
    return this.log.header?.id ?? "";
  }

  /** Id of the entry under which the next entry is appended; null before the first entry. */
  get leafId(): string | null {
    return this.window.leafId;
  }

  /** Context at the leaf, as a model reads it. The session reuses the object: do not change it. */
  get context(): SessionContext {
    return this.#path.context;
  }

  /** End of the leaf's path, as far as the context needs it. */
  get window(): PathWindow {
    return this.#path.window;
  }

  /** All entries and their relations. Throws `not-loaded` when the log has to be loaded first. */
  get tree(): Tree {
    const { view } = this.log;
    if (!view)
      throw new EspalierError("not-loaded", "The whole session is not loaded yet; await load() first.");
    if (!this.#tree) {
      this.#tree = new Tree(view);
      if (this.#ownKinds) this.#tree.useKinds(this.#ownKinds);
    }
    if (this.#tree.view.size !== view.size) this.#tree.takeIn(view);
    return this.#tree;
  }

  /** Loads all entries. Free for files; for a database, the cost of reading the whole session. */
  async load(): Promise<Tree> {
    await this.log.load();
    return this.tree;
  }

  /** Returns the result of `act`. If `act` needs entries that are not loaded, loads them and runs `act` again. */
  async withinReach<Result>(act: () => Result): Promise<Result> {
    try {
      return act();
    } catch (error) {
      if (!(error instanceof EspalierError && error.code === "not-loaded")) throw error;
      await this.log.load();
      return act();
    }
  }

  /**
   * Registers a kind of entry that is not in the format. It is used for all entries of its type, including those
   * already in the log, until the session is closed.
   *
   * @throws EspalierError `bad-kind`, `exists`
   */
  registerKind(kind: EntryKind): void {
    this.#ownKinds ??= new OwnKinds();
    this.#ownKinds.add(kind);
    this.#tree?.useKinds(this.#ownKinds);
    this.#jump(this.window);
  }

  /** Continues at the end of another path, or of the same path after its entries changed their kinds. */
  #jump(window: PathWindow): void {
    if (this.#ownKinds) for (const entry of window.entries) this.#ownKinds.adopt(entry);
    this.#path = new LeafPath(window);
  }

  /** Returns the entry with this id; undefined when there is none. Reads the whole tree for an id outside the window. */
  getEntry(id: string): Entry | undefined {
    return this.window.entries.findLast((entry) => entry.id === id) ?? this.tree.getEntry(id);
  }

  /** Returns the entries of the path to `fromId` (default: the leaf), root first; for null none. Throws `unknown-entry`. */
  getBranch(fromId: string | null = this.leafId): Entry[] {
    if (fromId === this.leafId && this.window.complete) return [...this.window.entries];
    return pathOf(this.tree, fromId);
  }

  /** Returns whether an entry is on the path that ends in `fromId` (default: the leaf); false for unknown ids and null. */
  isOnPath(id: string, fromId: string | null = this.leafId): boolean {
    if (fromId === null) return false;
    if (fromId === this.leafId) {
      if (isInWindow(this.window, id)) return true;
      if (this.window.complete) return false;
    }
    const { tree } = this;
    return tree.has(id) && tree.has(fromId) && isOnPath(tree, tree.row(id), tree.row(fromId));
  }

  /**
   * Returns the id that the leaf will have after moving to `id`: `id`, or its nearest ancestor that can be the leaf.
   * Throws `unknown-entry`.
   */
  placeOf(id: string | null): string | null {
    const row = rowOfLeaf(this.tree, id);
    return row < 0 ? null : this.tree.idAt(row);
  }

  /** Returns the context at {@link placeOf} of an entry; null is before the first entry. Throws `unknown-entry`. */
  contextAt(id: string | null): SessionContext {
    const window = pathWindowAt(this.tree, rowOfLeaf(this.tree, id));
    return contextOfPath(window.entries, window.before);
  }

  /**
   * Appends entries under the leaf, or under the parents that they name, in one write. The leaf, the tree and the
   * context change as soon as the entries are in the log; the promise resolves when they are as durable as `options`
   * ask. Appends run one after the other, in the order of their calls. Returns the entries as they are in the log. The
   * session keeps the values in the drafts: do not change them afterwards.
   *
   * @param drafts entries, or a function that drafts them after all earlier appends have moved the leaf. It runs again
   * when the log has to be loaded for it
   * @throws EspalierError `invalid-entry`, `duplicate-id`, `unknown-parent`, `off-path`, `unknown-entry`, `no-header`,
   * `version`, `moved` (see `ifLeaf`), `queue-full`, and the errors of the log. The session has not changed then,
   * except after `sync-failed` (the entries may not survive a loss of power) and when the message says so: open it again.
   */
  async append(drafts: Drafts, options: AppendOptions = {}): Promise<Entry[]> {
    const { transform, check, ifLeaf, onFailure } = options;
    const list = Array.isArray(drafts) ? drafts : [drafts];
    const createdIds = new Set<string>();
    let prepared: PreparedAppend | undefined;
    await this.#queue.add({
      keep: onFailure === "queue" && ifLeaf === undefined,
      content: () => prepared?.lines ?? list,
      write: async () => {
        // A retry writes the same lines, because some of them may already be in the log.
        if (!prepared) {
          let batch = typeof drafts === "function" ? await this.withinReach(drafts) : list;
          if (batch.length > 0) assertWritable(this.log);
          if (transform && batch.length > 0) batch = await transform(batch, createdIds);
          check?.();
          prepared = await this.withinReach(() =>
            readDrafts(() => new PreparedAppend(batch, this, this.#ownKinds, createdIds)),
          );
        }
        const { entries, lines, leafId } = prepared;
        if (entries.length === 0) return;

        const at = ifLeaf === undefined ? await this.log.append(lines) : await this.#appendAt(ifLeaf, lines);

        const previousLeafId = this.leafId;
        try {
          // The tree reads the new rows from the log, but need not parse these entries again.
          if (this.#tree) this.tree.remember(entries);
          if (!this.#path.follow(entries, leafId)) {
            const window = this.#windowAt(leafId);
            // Awaited only when needed: no caller may see the leaf while it moves.
            this.#jump(window instanceof Promise ? await window : window);
          }
        } catch (error) {
          if (!isLogError(error)) throw error;
          throw withSentence(error, "The entries are written; open the session again.");
        }

        if (at.from < at.offset) this.#notify({ type: "foreign", from: at.from, to: at.offset });
        this.#notify({ type: "appended", entries, leafId: this.leafId, previousLeafId });
        const end = at.offset + at.length;
        if (end < at.to) this.#notify({ type: "foreign", from: end, to: at.to });
      },
    });
    const { entries } = prepared!;
    const isDurable = (entry: Entry) => (options.durability ?? kindOf(entry).durability?.(entry)) === "fsync";
    if (entries.some(isDurable)) await this.log.flush();
    return entries;
  }

  /** Appends if `leafId` is the leaf, else throws `moved`. New labels and the like of other writers do not prevent it. */
  async #appendAt(leafId: string | null, lines: readonly string[]): Promise<LogAppend> {
    for (;;) {
      await this.refresh();
      const { leafId: now } = await this.log.readPath();
      if (now !== leafId || this.leafId !== leafId) throw moved(leafId, now === leafId ? this.leafId : now);
      try {
        return await this.log.append(lines, { ifUnchanged: true });
      } catch (error) {
        if (!(error instanceof EspalierError && error.code === "moved")) throw error;
      }
    }
  }

  /** Returns the window of a leaf. A promise when the log is elsewhere; only the window is fetched then. */
  #windowAt(leafId: string | null): PathWindow | Promise<PathWindow> {
    if (leafId === null) return new PathWindowBuilder().finish(null);
    return this.log.view ? pathWindowAt(this.tree, this.tree.row(leafId)) : this.log.readPath(leafId);
  }

  /** Appends a compaction under the leaf; returns its id. */
  async appendCompaction(
    summary: string,
    firstKeptEntryId: string,
    tokensBefore: number,
    details?: unknown,
  ): Promise<string> {
    const fields = { summary, firstKeptEntryId, tokensBefore, ...(details === undefined ? {} : { details }) };
    return (await this.append(compaction.of(fields)))[0]!.id;
  }

  /** Appends a summary of the current branch under {@link placeOf} `targetId`: the new leaf. Returns the summary's id. */
  async branchWithSummary(targetId: string | null, summary: string, details?: unknown): Promise<string> {
    const draft = () => {
      const place = { parentId: this.placeOf(targetId), fromId: this.leafId ?? "" };
      return [branchSummary.of({ ...place, summary, ...(details === undefined ? {} : { details }) })];
    };
    return (await this.append(draft))[0]!.id;
  }

  /**
   * Moves the leaf to an entry, or before the first entry for null. If the entry cannot be the leaf, moves to its
   * nearest ancestor that can. Appends nothing when that is the leaf already.
   */
  async moveTo(id: string | null): Promise<void> {
    await this.append(() => {
      const targetId = this.placeOf(id);
      return targetId === this.leafId ? [] : [leaf.of({ parentId: targetId, targetId })];
    });
  }

  /** Entries kept because writing fails, and their bytes; see `onFailure`. A drafting function is 1 until it runs. */
  get queued(): { entries: number; bytes: number } {
    return this.#queue.queued;
  }

  /** Resolves when everything appended so far survives a loss of power. Throws the error that prevents writing. */
  async flush(): Promise<void> {
    await this.#queue.drain();
    await this.log.flush();
  }

  /** Calls `observer` for every change from now on. Returns the function that ends this. */
  subscribe(observer: SessionObserver): () => void {
    this.#observers.add(observer);
    return () => this.#observers.delete(observer);
  }

  #notify(change: SessionChange): void {
    for (const observer of this.#observers)
      try {
        observer(change);
      } catch (error) {
        // The append has succeeded, so the error is thrown separately and the other observers are notified.
        queueMicrotask(() => {
          throw error;
        });
      }
  }

  /** Reads entries of other writers. The leaf of this session stays. */
  async refresh(): Promise<void> {
    const grown = await this.log.takeIn();
    if (grown) this.#notify({ type: "foreign", ...grown });
  }

  /** @internal Moves to the leaf of the log, unless this session has moved to another branch. Appends nothing. */
  async followLog(): Promise<void> {
    await this.refresh();
    const window = await this.log.readPath();
    await this.load();
    const { leafId } = this;
    if (leafId !== null && leafId !== this.#followedId && !this.isOnPath(leafId, window.leafId)) return;
    this.#followedId = window.leafId;
    this.#jump(window);
  }

  /** Waits for running appends, tries the kept ones once more, rejects those that fail again, and closes the log. */
  async close(): Promise<void> {
    await this.#queue.close();
    await this.log.close();
  }
}

/**
 * Entries of an append, with ids, parents and timestamps, checked before anything is written. The default parent of an
 * entry is the leaf, which moves with each entry of the conversation. Entries outside the conversation, except `leaf`
 * entries, must have the leaf as parent.
 */
class PreparedAppend {
  readonly entries: Entry[] = [];
  readonly lines: string[] = [];
  /** Id of the leaf after the entries so far. */
  leafId: string | null;
  readonly #session: SessionTree;
  readonly #added = new Map<string, Entry>();

  /**
   * @param createdIds new ids in the drafts, which need no search for duplicates
   * @throws EspalierError `invalid-entry`, `duplicate-id`, `unknown-parent`, `off-path`, `unknown-entry`
   */
  constructor(
    drafts: readonly NewEntry[],
    session: SessionTree,
    kinds: OwnKinds | undefined,
    createdIds: ReadonlySet<string>,
  ) {
    this.#session = session;
    this.leafId = session.leafId;
    const now = timestamp();
    for (const draft of drafts) {
      const given = fillIn(draft, this.leafId, now) as Entry;
      kinds?.adopt(given);
      const idGiven = draft.id !== undefined && !createdIds.has(draft.id);
      this.#check(given, idGiven, draft.parentId !== undefined);
      const line = lineOf(given);
      // Memory must equal the log: when writing replaced lone surrogates, the entry is read back from its line.
      const entry = line.includes("\ufffd") ? entryAsWritten(given, line) : given;
      if (entry !== given) kinds?.adopt(entry);
      this.lines.push(line);
      this.entries.push(entry);
      this.#added.set(entry.id, entry);
      const kind = kindOf(entry);
      if (kind.leafTarget) this.leafId = kind.leafTarget(entry);
      else if (kind.movesLeaf) this.leafId = entry.id;
    }
  }

  #check(entry: BaseEntry, idGiven: boolean, parentGiven: boolean): void {
    const { id, type, parentId, timestamp } = entry;
    const invalid = (problem: string) =>
      new EspalierError("invalid-entry", `The ${type || "new"} entry is not valid: ${problem}.`);
    if (typeof type !== "string" || type === "" || type === "session")
      throw invalid("`type` is missing or that of a header");
    if (typeof id !== "string" || id === "") throw invalid("`id` is not a text");
    if (parentId !== null && typeof parentId !== "string")
      throw invalid("`parentId` is neither an id nor null");
    if (typeof timestamp !== "string") throw invalid("`timestamp` is not text (ISO 8601)");
    if (idGiven && this.#has(id)) {
      const message = `There is an entry ${JSON.stringify(id)} already; leave the id out to get a fresh one.`;
      throw new EspalierError("duplicate-id", message);
    }
    if (parentGiven && parentId !== null && !this.#has(parentId)) {
      const message = `The parent ${JSON.stringify(parentId)} is not in this session; append it first, or name one that is.`;
      throw new EspalierError("unknown-parent", message);
    }
    const kind = kindOf(entry);
    const problem = kind.problem?.(entry);
    if (problem) throw invalid(problem);
    const firstKept = kind.firstKept?.(entry);
    if (firstKept !== undefined && firstKept !== id && !this.#isOnPath(firstKept, parentId)) {
      const message = `The first kept entry ${JSON.stringify(firstKept)} is not on the path of the compaction.`;
      throw new EspalierError("off-path", message);
    }
    const edited = kind.edit?.(entry).targetId;
    if (edited !== undefined && !this.#isOnPath(edited, parentId)) {
      const message = `The entry ${JSON.stringify(edited)} is not on the path; only entries of the path can be edited.`;
      throw new EspalierError("off-path", message);
    }
    if (kind.movesLeaf) return;
    const named = (entry as { targetId?: unknown }).targetId;
    if (typeof named === "string" && !this.#has(named)) {
      throw new EspalierError("unknown-entry", `There is no entry ${JSON.stringify(named)} in this session.`);
    }
    if (!kind.leafTarget) {
      // With another parent, opening the log again would read the entry as a move of the leaf to that parent.
      if (parentId !== this.leafId) throw invalid("its parent is not the leaf; leave `parentId` out");
    } else if (typeof named === "string" && this.#placeOf(named) !== named)
      throw invalid("`targetId` is an entry that cannot be the leaf; name the one before it");
  }

  /** Returns whether an entry exists. Searches the window first, and the whole tree only if it is not there. */
  #has(id: string): boolean {
    return this.#added.has(id) || isInWindow(this.#session.window, id) || this.#session.tree.has(id);
  }

  #isOnPath(id: string, leafId: string | null): boolean {
    let at = leafId;
    for (let entry = this.#added.get(at ?? ""); entry; entry = this.#added.get(at ?? "")) {
      if (entry.id === id) return true;
      at = entry.parentId;
    }
    return this.#session.isOnPath(id, at);
  }

  #placeOf(id: string): string | null {
    const entry = this.#added.get(id);
    if (!entry) return this.#session.placeOf(id);
    return kindOf(entry).movesLeaf ? id : entry.parentId;
  }
}

function lineOf(entry: Entry): string {
  try {
    return formatLine(entry);
  } catch (cause) {
    if (!(cause instanceof EspalierError)) throw cause;
    throw new EspalierError("invalid-entry", `The ${entry.type} entry cannot be written: ${cause.message}`, {
      cause,
    });
  }
}

/** Change of a session, or of its ability to write. Appended entries are in the log then, but maybe not synced yet. */
export type SessionChange =
  /** Own entries were appended. `leafId` is the leaf afterwards. */
  | { type: "appended"; entries: readonly Entry[]; leafId: string | null; previousLeafId: string | null }
  /** Another writer appended the bytes `[from, to)`. Their entries are in the tree; the leaf of this session stays. */
  | { type: "foreign"; from: number; to: number }
  /** Writing failed. The `queued` entries are kept until writing works again, and are not in the tree. */
  | { type: "persist_failed"; error: EspalierError; queued: { entries: number; bytes: number } }
  /** Writing works again. `drained` kept entries are in the log now. */
  | { type: "persist_recovered"; drained: number };

/**
 * Receives every change of a session, in order. The append waits until the observer returns. An error that it throws
 * becomes an uncaught error, as in an event listener, because the append has succeeded.
 */
export type SessionObserver = (change: SessionChange) => void;

/** One entry to append, several, or a function that drafts them when the append's turn comes. */
export type Drafts = NewEntry | readonly NewEntry[] | (() => readonly NewEntry[]);

/** Options of an append. */
export interface AppendOptions {
  /** Durability of the append when its promise resolves. Default: the strictest that one of its entries requires. */
  durability?: Durability;
  /**
   * Behaviour when writing fails. `throw` (default): the promise is rejected, and the session keeps nothing. `queue`:
   * after `write-failed`, `short-write` or `unreadable` the entries are kept, in order, until writing works again or
   * the session is closed; then the promise is settled. Beyond 1,000 entries or 64 MiB: `queue-full`.
   */
  onFailure?: "throw" | "queue";
  /**
   * Appends only while this is the leaf of this session and of its log. When another writer has moved the leaf, nothing
   * is written, and the error is `moved` with the current `leafId`. So several writers of a session continue one path
   * instead of making two branches. PostgreSQL and memory compare and append in one step. Files do so among appends
   * with `ifLeaf`; an append without it can come in between. Never kept by `onFailure: "queue"`.
   */
  ifLeaf?: string | null;
  /**
   * Changes the drafts before they are checked and written. It adds to `createdIds` the new ids that it gave to drafts:
   * other ids in drafts are searched in the whole log, to find duplicates.
   */
  transform?: (drafts: readonly NewEntry[], createdIds: Set<string>) => Promise<readonly NewEntry[]>;
  /** Throws to refuse the append. Runs after `transform`. No append of this session comes between this and the write. */
  check?: () => void;
}
