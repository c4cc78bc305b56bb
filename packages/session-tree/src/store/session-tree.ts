import { type ByteView, EspalierError, jsonText } from "@espalier/jsonl-stream";
import { contextOfPath, type SessionContext } from "../context/context.ts";
import { LeafPath, type PathWindow, pathWindowAt } from "../context/window.ts";
import type { Entry, EntryKind, NewEntry, SessionHeader } from "../entry/entry.ts";
import { branchSummary, compaction, leaf, OwnKinds } from "../entry/kinds.ts";
import { movingRow } from "../tree/queries.ts";
import { pathOf, Tree } from "../tree/tree.ts";
import {
  type AppendOptions,
  appendSite,
  assertWritable,
  type EntryPreparation,
  type PreparedAppend,
  prepareAppend,
  readDrafts,
  strictestDurability,
} from "./append.ts";
import { type LogAppend, type SessionLog, viewOf, windowAt, withinReach } from "./store.ts";
import { type SessionObserver, SessionObservers, WriteQueue } from "./write-queue.ts";

/**
 * A session: a log, the tree in it, and a leaf. Every change goes through {@link append} and is told to observers.
 *
 * Opening reads only what the context at the leaf needs. The whole tree is read when something asks for it; for a log
 * whose bytes are not within reach (a database), `await load()` comes first.
 */
export class SessionTree {
  readonly log: SessionLog;
  readonly #path: LeafPath;
  #tree: Tree | undefined;
  #ownKinds: OwnKinds | undefined;
  readonly #queue = new WriteQueue({
    failed: (error, queued) => this.#observers.tell({ type: "persist_failed", error, queued }),
    recovered: (drained) => this.#observers.tell({ type: "persist_recovered", drained }),
  });
  readonly #observers = new SessionObservers();
  #prepare: EntryPreparation | undefined;
  #admit = (): void => {};

  private constructor(log: SessionLog, window: PathWindow) {
    this.log = log;
    this.#path = new LeafPath(window);
  }

  /**
   * The session in a log, at the leaf that the log says, or at `leafId`.
   * @throws EspalierError `not-a-session` when no line of it is usable, `unknown-entry`
   */
  static async open(log: SessionLog, leafId?: string): Promise<SessionTree> {
    const session = new SessionTree(log, await log.readPath(leafId));
    if (log.header || session.leafId !== null || (await session.load()).length > 0) return session;
    throw new EspalierError(
      "not-a-session",
      `${log.ref} has no line that is a session header or an entry; is it a session file?`,
    );
  }

  /** The header; undefined for a log that has none, which is only read. */
  get header(): SessionHeader | undefined {
    return this.log.header;
  }

  /** The session's id; empty when the log has no header. */
  get id(): string {
    return this.log.header?.id ?? "";
  }

  /** The entry under which the next one is appended; null before the first. */
  get leafId(): string | null {
    return this.window.leafId;
  }

  /** The context at the leaf. Kept while the session runs: do not change it. */
  get context(): SessionContext {
    return this.#path.context;
  }

  /** The end of the leaf's path, as far as its context reaches. */
  get window(): PathWindow {
    return this.#path.window;
  }

  /** All entries. Throws `not-loaded` where the log has to be loaded first. */
  get tree(): Tree {
    const view = viewOf(this.log);
    this.#tree ??= this.#newTree(view);
    if (this.#tree.view.size !== view.size) this.#tree.takeIn(view);
    return this.#tree;
  }

  #newTree(view: ByteView): Tree {
    const tree = new Tree(view);
    if (this.#ownKinds) tree.useKinds(this.#ownKinds);
    return tree;
  }

  /**
   * Gives the session a kind besides those of the format. It answers for entries of its type, those of the log among
   * them, until the session is closed.
   *
   * @throws EspalierError `bad-kind`, `exists`
   */
  registerKind(kind: EntryKind): void {
    const kinds = this.#ownKinds ?? new OwnKinds();
    kinds.add(kind);
    this.#ownKinds = kinds;
    this.#tree?.useKinds(kinds);
    this.#jump(this.window);
  }

  /** Goes on from the end of another path, or from the same one where its entries say something else now. */
  #jump(window: PathWindow): void {
    if (this.#ownKinds) for (const entry of window.entries) this.#ownKinds.adopt(entry);
    this.#path.jump(window);
  }

  /** Brings the whole tree within reach. */
  async load(): Promise<Tree> {
    await this.log.load();
    return this.tree;
  }

  /** The entry with this id; undefined where there is none. Reads the whole tree for one that lies before the context. */
  getEntry(id: string): Entry | undefined {
    return this.window.entries.findLast((entry) => entry.id === id) ?? this.tree.getEntry(id);
  }

  /** Entries of the path that ends in `fromId` (default: the leaf), root first. Throws `unknown-entry`. */
  getBranch(fromId: string | null = this.leafId): Entry[] {
    if (fromId === this.leafId && this.window.complete) return [...this.window.entries];
    return pathOf(this.tree, fromId);
  }

  /**
   * Appends entries under the leaf, or under the parents they name, in one write. They count (leaf, tree, context) as
   * soon as they are in the log, so that calls take their turn without waiting for the disk; the promise answers when
   * they are as durable as was asked for. Returns the entries as the log has them. What the drafts hold is the session's
   * from then on: do not change it.
   *
   * @throws EspalierError `invalid-entry`, `duplicate-id`, `unknown-parent`, `off-path`, `unknown-entry`,
   *   `no-header`, `version`, `moved` (see `ifLeaf`), and what the log throws: nothing has changed then. Only after `sync-failed` they are in
   *   the log and may not survive a loss of power: open the session anew.
   */
  async append(drafts: NewEntry | readonly NewEntry[], options: AppendOptions = {}): Promise<Entry[]> {
    const batch = (Array.isArray(drafts) ? drafts : [drafts]) as readonly NewEntry[];
    return this.#inTurn(() => batch, batch.length, options);
  }

  /** What is kept because writing fails; see `onFailure` of an append. */
  get queued(): { entries: number; bytes: number } {
    return this.#queue.queued;
  }

  /** Answers when everything appended so far survives the loss of power. Throws what keeps it from being written. */
  async flush(): Promise<void> {
    await this.#queue.drain();
    await this.log.flush();
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

  /** Moves the leaf and appends the summary of the branch that is left, in one write; returns the summary's id. */
  async branchWithSummary(targetId: string | null, summary: string, details?: unknown): Promise<string> {
    if (!this.log.view) await this.log.load();
    const draft = () => {
      const place = { parentId: this.placeOf(targetId), fromId: this.leafId ?? "" };
      return [branchSummary.of({ ...place, summary, ...(details === undefined ? {} : { details }) })];
    };
    return (await this.#inTurn(draft, 1))[0]!.id;
  }

  /** Moves the leaf to an entry (for one that cannot be a leaf: its nearest ancestor that can), or before the first. */
  async moveTo(id: string | null, options: { undoes?: string } = {}): Promise<void> {
    if (!this.log.view) await this.log.load();
    const draft = () => {
      const targetId = this.placeOf(id);
      return targetId === this.leafId ? [] : [leaf.of({ parentId: targetId, targetId, ...options })];
    };
    await this.#inTurn(draft, 1);
  }

  /** The id of the place where the leaf comes to stand when it is moved to `id`. Throws `unknown-entry`. */
  placeOf(id: string | null): string | null {
    if (id === null) return null;
    const row = movingRow(this.tree, this.tree.row(id));
    return row < 0 ? null : this.tree.idAt(row);
  }

  /** The context at any entry; null is before the first. Throws `unknown-entry`. */
  contextAt(id: string | null): SessionContext {
    const place = this.placeOf(id);
    const window = pathWindowAt(this.tree, place === null ? -1 : this.tree.row(place));
    return contextOfPath(window.entries, window.before);
  }

  /** Every draft passes through `prepare` before it is checked and written; `admit` may refuse an append before that. */
  prepareWith(prepare: EntryPreparation, admit: () => void = () => {}): void {
    this.#prepare = prepare;
    this.#admit = admit;
  }

  /** Tells `observer` of every change from now on; returns the function that ends it. */
  subscribe(observer: SessionObserver): () => void {
    return this.#observers.add(observer);
  }

  /** Takes in what others appended. Our leaf stays where it is. */
  async refresh(): Promise<void> {
    const grown = await this.log.takeIn();
    if (grown) this.#observers.tell({ type: "foreign", ...grown });
  }

  /** Waits for appends under way and closes the log. What could not be written until then is rejected. */
  async close(): Promise<void> {
    await this.#queue.close();
    await this.log.close();
  }

  /** Appends what is drafted when its turn has come: appends before it may have moved the leaf. */
  async #inTurn(draft: () => readonly NewEntry[], count: number, options: AppendOptions = {}) {
    this.#admit();
    let prepared: PreparedAppend | undefined;
    const { ifLeaf } = options;
    await this.#queue.add({
      keep: options.onFailure === "queue" && ifLeaf === undefined,
      entries: count,
      measureBytes: () => jsonText(draft()).length,
      // What is written again is the same: a part of it may stand in the log already.
      write: async () => {
        prepared ??= await this.#prepared(draft());
        await this.#write(prepared, ifLeaf);
      },
    });
    const { entries } = prepared!;
    if ((options.durability ?? strictestDurability(entries)) === "fsync" && entries.length > 0)
      await this.log.flush();
    return entries;
  }

  /** Appends while `leafId` is the leaf; what others append beside it (a label) is no reason not to. */
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

  async #prepared(drafts: readonly NewEntry[]): Promise<PreparedAppend> {
    if (drafts.length > 0) assertWritable(this.log);
    const given = this.#prepare && drafts.length > 0 ? await this.#prepare(drafts) : drafts;
    return withinReach(this.log, () =>
      readDrafts(() => prepareAppend(given, appendSite(this), this.#ownKinds)),
    );
  }

  async #write({ entries, lines, leafId }: PreparedAppend, ifLeaf?: string | null): Promise<void> {
    if (entries.length === 0) return;
    const at = ifLeaf === undefined ? await this.log.append(lines) : await this.#appendAt(ifLeaf, lines);
    const previousLeafId = this.leafId;
    // It learns of the new rows from the log, and keeps the bodies that are at hand anyway.
    if (this.#tree) this.tree.remember(entries);
    const isThere = this.#path.follow(entries, leafId);
    const window = isThere ? this.window : windowAt(this.log, () => this.tree, leafId);
    // No pause where there need not be one: nobody shall see the leaf on its way.
    if (!isThere) this.#jump(window instanceof Promise ? await window : window);
    // Told when everything is in its place: an observer may look at the session.
    if (at.from < at.offset) this.#observers.tell({ type: "foreign", from: at.from, to: at.offset });
    this.#observers.tell({ type: "appended", entries, leafId: this.leafId, previousLeafId });
  }
}

const moved = (from: string | null, leafId: string | null): EspalierError =>
  new EspalierError(
    "moved",
    `The leaf is ${JSON.stringify(leafId)} by now, not ${JSON.stringify(from)}; nothing was written. Open the session again to go on from there.`,
    { leafId },
  );
