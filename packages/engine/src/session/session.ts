import type { CompactionPlan, NothingToCompact, Policy } from "@espalier/compaction";
import {
  type CompactResult,
  EventBus,
  type OffloadStorage,
  type PolicyLog,
} from "@espalier/compaction/policies";
import type { ExtensionReport, NotifyHook } from "@espalier/extensions";
import { EspalierError, type LeaseHolder } from "@espalier/jsonl-stream";
import {
  type AppendOptions,
  type Branch,
  branches,
  type ContextMessage,
  custom,
  type Entry,
  label,
  labelsInForce,
  type NewEntry,
  type SessionContext,
  type SessionHeader,
  type SessionLease,
  type SessionObserver,
  type SessionStore,
  type SessionTree,
  sessionInfo,
  sessionName,
  type Tree,
} from "@espalier/session-tree";
import type { CompactionResult, CompactSessionOptions } from "../compaction/draft.ts";
import { offloadStorageOf } from "../compaction/offload.ts";
import {
  type CompactionRequest,
  comparePolicies,
  type PolicyComparison,
  planOf,
  type RequestExtras,
} from "../compaction/request.ts";
import { BackgroundPolicy, compactWhenDue, forceCompact, runCompaction } from "../compaction/run.ts";
import { contextForHandlers } from "../extensions/context.ts";
import { runCommand } from "../extensions/extension.ts";
import { preparedEntries, refuseNestedAppend, tellHandlers } from "../extensions/handlers.ts";
import { emptyHost } from "../extensions/load.ts";
import { type ExtensionCommand, ExtensionMembers } from "../extensions/members.ts";
import { type Diagnosis, diagnoseTree } from "../repair/diagnose.ts";
import { SettingsInForce, type Settle } from "../settings/current.ts";
import { fillMessages, type MessageDraft, oneLine, PIN, pinnedOn, planHiding } from "./edit.ts";
import { type ForkOptions, type ForkResult, forkSession } from "./fork.ts";
import {
  type MergeOptions,
  type MergeResult,
  mergeBranch,
  type NavigateOptions,
  type NavigateResult,
  navigate,
  undo,
} from "./navigate.ts";
import { type PreparedRequest, prepareRequest, type RequestPreparation } from "./prepare-request.ts";
import { type ReplayOptions, type ReplayStep, replay } from "./replay.ts";
import {
  context,
  type EngineHost,
  entryAppended,
  modelInForce,
  type SessionOptions,
  type SessionState,
  type ShutdownReason,
  sessionShutdown,
  shapedContext,
} from "./state.ts";

/** So often closing waits once more for what began meanwhile: who answers every entry by another one is never done. */
const CLOSING_ROUNDS = 10;

/**
 * An open session: what an agent embeds and every shell acts through. Reading is synchronous; whatever changes the
 * session is asynchronous and ends in one append, of which all observers are told.
 */
export class Session implements SessionState {
  readonly core: SessionTree;
  readonly store: SessionStore;
  readonly host: EngineHost;
  /** Tells of progress, of changes, and of compactions that did not come about. */
  readonly events: EventBus;
  readonly log: PolicyLog;
  readonly offloadStorage: OffloadStorage | undefined;
  /** What extensions registered besides handlers, and share. */
  readonly extensionMembers = new ExtensionMembers({
    compact: (options) => this.compact(options),
    navigate: (targetId, options) => this.navigate(targetId, options),
    fork: (entryId, options) => this.fork(entryId, options),
    label: (targetId, text) => this.label(targetId, text),
    rename: (name) => this.rename(name),
  });
  readonly #settings: SettingsInForce;
  readonly #background: BackgroundPolicy;
  /** Who else writes the session: set where that is why it is read only, shared, or a fork. */
  heldBy: LeaseHolder | undefined;
  /** Given back when the session is closed. */
  lease: SessionLease | undefined;
  /** Set where the session was opened to be read. */
  isReadOnly = false;
  #closing: Promise<void> | undefined;
  #compaction: Promise<CompactionResult | NothingToCompact> | undefined;
  /** What is waited for before the session is let go of: compactions to their last event, mirrors to their last entry. */
  readonly #endings = new Set<Promise<unknown>>();
  readonly #checks = new WeakMap<readonly NewEntry[], () => void>();

  constructor(
    core: SessionTree,
    store: SessionStore,
    options: SessionOptions = {},
    onReport: (report: ExtensionReport) => void = () => {},
  ) {
    this.core = core;
    this.store = store;
    this.#settings = new SettingsInForce(options);
    this.host = emptyHost(onReport);
    this.events = options.events ?? new EventBus();
    this.log = options.log ?? console;
    this.offloadStorage = options.offloadStorage ?? offloadStorageOf(core.log);
    this.#background = new BackgroundPolicy(this, (due) => this.compact(due));
    core.prepareWith(
      (drafts) => this.#transformed(drafts),
      () => refuseNestedAppend(core),
    );
    core.subscribe((change) => {
      if (change.type !== "appended") return;
      this.#announce(change.entries);
      this.#settings.pathHasGrown(
        () => modelInForce(core),
        (error) => this.#reportUnsettled(error),
      );
      const judge = () => this.#background.entriesAppended(change.entries);
      // Another model may have other limits: what is due is judged by them.
      if (this.#settings.pending) void this.#untilClosed(this.#settings.pending.then(judge));
      else judge();
    });
  }

  /** What the session goes by, with what the settings say of the model in force. */
  get options(): SessionOptions {
    return this.#settings.options;
  }

  /** When to compact and what to keep. */
  get policy(): Policy {
    return this.#settings.policy;
  }

  /** Asks `settle` again whenever another model is in force; what it answers stands above what held before. */
  settleBy(settle: Settle): void {
    this.#settings.follow(settle, modelInForce(this.core));
  }

  /** The session's id; empty for a file without a header. */
  get id(): string {
    return this.core.id;
  }

  /** The path of the session's file, or its address in another store. */
  get file(): string {
    return this.core.log.ref;
  }

  /** The first line of the log; undefined where it is none. */
  get header(): SessionHeader | undefined {
    return this.core.header;
  }

  /** All entries and how they hang together. Throws `not-loaded` in a store elsewhere before {@link load}. */
  get tree(): Tree {
    return this.core.tree;
  }

  /** Brings all entries within reach: free for files, and for a database what reading all of it costs. */
  load(): Promise<Tree> {
    return this.core.load();
  }

  /** The entry under which the next one is appended; null before the first. */
  get leafId(): string | null {
    return this.core.leafId;
  }

  /** What the model reads at the leaf. Kept while the session runs: do not change it. */
  get context(): SessionContext {
    return this.core.context;
  }

  /** The session's name; undefined when it has none. */
  get name(): string | undefined {
    return sessionName(this.tree);
  }

  /** What the model would read at any entry; null is before the first. Throws `unknown-entry`. */
  contextAt(id: string | null): SessionContext {
    return this.core.contextAt(id);
  }

  /** What of the context the policy lets into a request. */
  get requestContext(): SessionContext {
    return shapedContext(this.context, this.policy.shape?.(this.context) ?? this.context.messages);
  }

  /** The context that goes into a request: that of the leaf, after the policy and the extensions that shape it. */
  async contextToSend(signal?: AbortSignal): Promise<SessionContext> {
    const shaped = this.requestContext;
    if (!this.host.has(context)) return shaped;
    const given = shaped.messages.filter(({ role }) => role !== "system");
    const changed = await this.host.transform(context, given, contextForHandlers(this, signal));
    if (changed === given) return shaped;
    return shapedContext(shaped, withSystem(shaped.messages, changed));
  }

  /**
   * Everything that happens before a request goes out: results move to files, the policy compacts, and what is sent is
   * shaped. Fails open, as long as the request fits the model's window and the bytes that its provider takes.
   *
   * @throws EspalierError `over-window`, `over-bytes` and as {@link compact}; EspalierError when the log cannot be written
   */
  async prepareRequest(options?: RequestPreparation): Promise<PreparedRequest> {
    await this.#settings.pending;
    return prepareRequest(this, options);
  }

  /** The entry with this id; undefined where there is none. */
  getEntry(id: string): Entry | undefined {
    return this.core.getEntry(id);
  }

  /** All entries, in the order of the file. */
  getEntries(): Entry[] {
    return [...this.tree.entries()];
  }

  /** Entries of the path that ends in `fromId` (default: the leaf), root first. Throws `unknown-entry`. */
  getBranch(fromId?: string | null): Entry[] {
    return this.core.getBranch(fromId);
  }

  /** The label of an entry; undefined when it has none. */
  getLabel(id: string): string | undefined {
    return labelsInForce(this.tree).get(id)?.label;
  }

  /** All ends of the tree, each with the newest user text on its path. */
  branches(): Branch[] {
    return branches(this.tree);
  }

  /** Ids pinned on the leaf's path. */
  pinned(): string[] {
    return pinnedOn(this.getBranch());
  }

  /**
   * Appends entries under the leaf, in one write; answers when they are in the log.
   * @throws EspalierError `invalid-entry`, `unknown-parent`, `off-path`, … and nothing has changed
   */
  async append(entries: NewEntry | readonly NewEntry[], options?: AppendOptions): Promise<Entry[]> {
    const appended = await this.core.append(entries, options);
    await this.#settings.pending;
    return appended;
  }

  /** Appends messages, filling in what a draft leaves out; see `fillMessage`. Throws `bad-input`, as it does. */
  async appendMessages(drafts: readonly MessageDraft[], options?: AppendOptions): Promise<Entry[]> {
    return this.append(fillMessages(drafts, this.context), options);
  }

  /** Appends a compaction under the leaf; returns its id. */
  appendCompaction(
    summary: string,
    firstKeptEntryId: string,
    tokensBefore: number,
    details?: unknown,
  ): Promise<string> {
    return this.core.appendCompaction(summary, firstKeptEntryId, tokensBefore, details);
  }

  /** Moves the leaf and appends the summary of the branch that is left, in one write; returns the summary's id. */
  branchWithSummary(targetId: string | null, summary: string, details?: unknown): Promise<string> {
    return this.core.branchWithSummary(targetId, summary, details);
  }

  /** What a compaction would do at the leaf. Pure: nothing is asked, nothing is written. */
  planCompaction(request: CompactionRequest = {}): CompactionPlan {
    return planOf(this, request).plan;
  }

  /**
   * Compacts the leaf's path. Nothing to compact is an answer; a failure is an error and leaves the session as it was.
   * One compaction at a time: an automatic one joins the one that runs, another one is refused.
   *
   * @throws EspalierError `already-running`, `no-smaller`, `stale`, `irreducible`; EspalierError; `cancelled`
   */
  compact(options: CompactSessionOptions = {}): Promise<CompactionResult | NothingToCompact> {
    if (this.#settings.pending) return this.#settings.pending.then(() => this.compact(options));
    if (this.#compaction) {
      if ((options.reason ?? "manual") !== "manual") return this.#compaction;
      return Promise.reject(
        new EspalierError(
          "already-running",
          "A compaction of this session is running; wait for it or abort it.",
        ),
      );
    }
    let isOver = false;
    const running = runCompaction(this, options, () => {
      isOver = true;
      this.#compaction = undefined;
    });
    // It may have ended before it was ever waited for.
    if (!isOver) this.#compaction = running;
    return this.#untilClosed(running);
  }

  /**
   * Compacts whatever the thresholds say. Nothing to compact is a success; a summary that cannot be had is
   * `success: false`, and the conversation is as it was.
   *
   * @throws as {@link compact}, but for EspalierError
   */
  forceCompact(options: CompactSessionOptions = {}): Promise<CompactResult> {
    return forceCompact(this, options, (forced) => this.compact(forced));
  }

  /** What each policy would do with the session as it is. Nothing is asked, nothing is written. */
  comparePolicies(extras?: RequestExtras): PolicyComparison[] {
    return comparePolicies(this, extras);
  }

  /** Whether the policy compacts behind the conversation's back. */
  get isConsolidating(): boolean {
    return this.#background.isRunning;
  }

  /** Whether the policy found a compaction due while one was running. */
  get pendingConsolidation(): boolean {
    return this.#background.isPending;
  }

  /** See {@link SessionState}. */
  now(): number {
    return this.options.now?.() ?? Date.now();
  }

  /** Whether a compaction is running. */
  get isCompacting(): boolean {
    return this.#compaction !== undefined;
  }

  /**
   * Compacts if the policy finds it due. Undefined when it does not, or when nothing may compact by itself.
   * @throws EspalierError `exhausted` after two in a row without an answer of the model, and as {@link compact}
   */
  async compactWhenDue(
    options: CompactSessionOptions = {},
  ): Promise<CompactionResult | NothingToCompact | undefined> {
    await this.#settings.pending;
    return compactWhenDue(this, options, (due) => this.compact(due));
  }

  /**
   * Moves the leaf inside the session. To a user or custom message: before it, and its text comes back for editing.
   * null: before the first entry. With `summarize`, what is left behind is told where one arrives.
   *
   * @throws EspalierError `unknown-entry`; EspalierError; `cancelled` for a veto: the leaf stays
   */
  navigate(targetId: string | null, options?: NavigateOptions): Promise<NavigateResult> {
    return navigate(this, targetId, options);
  }

  /** Takes back the newest navigation, prompt, `compact` or `hide`; again, the one before. Throws `nothing-to-undo`. */
  undo(): Promise<NavigateResult> {
    return undo(this);
  }

  /** Starts a new session from a path of this one. Throws `unknown-entry`, `exists`, `cancelled`. */
  fork(entryId: string, options?: ForkOptions): Promise<ForkResult> {
    return forkSession(this, entryId, options);
  }

  /** Brings the conclusion of another branch here, without leaving either. Merging the same leaf again writes nothing. */
  merge(fromId: string, options?: MergeOptions): Promise<MergeResult> {
    return mergeBranch(this, fromId, options);
  }

  /** Gives an entry a label; an empty text or none clears it. Returns the id of the label's entry. */
  async label(targetId: string, text?: string): Promise<string> {
    if (!this.core.log.view) await this.load();
    this.tree.row(targetId);
    return this.#appendOne(label.of({ targetId, ...(text ? { label: shownLine(text, "label") } : {}) }));
  }

  /** Names the session. Returns the id of the entry that says so. */
  async rename(name: string): Promise<string> {
    return this.#appendOne(sessionInfo.of({ name: shownLine(name, "name") }));
  }

  /** Keeps an entry in the context, word for word, over compactions; or no longer. Returns the id of the pin's entry. */
  async pin(targetId: string, pinned = true): Promise<string> {
    if (!this.core.log.view) await this.load();
    this.tree.row(targetId);
    return this.#appendOne(custom.of({ customType: PIN, data: { targetId, pinned } }));
  }

  /**
   * Leaves an entry of the leaf's path out of the context from here on, or brings it back. Nothing is rewritten: above
   * the edit, on other branches and in the file it stands as it stood. Returns the id of the entry that says so; null
   * where it was so already, and nothing was written. What comes back is written once more; what another program wrote
   * on a longer line than is written here (16 MiB) comes back by `undo` alone.
   *
   * @throws EspalierError `unknown-entry`, `invalid-entry` for such a line; `not-in-context`: nothing that the model reads
   */
  async hide(targetId: string, hidden = true): Promise<string | null> {
    if (!this.core.log.view) await this.load();
    const edit = planHiding(this.core, targetId, hidden);
    return edit ? this.#appendOne(edit) : null;
  }

  /** Plays the session back, entry by entry. */
  replay(options?: ReplayOptions): Generator<ReplayStep> {
    return replay(this.tree, options);
  }

  /** Says what is wrong with the session's lines. Changes nothing. */
  diagnose(): Diagnosis {
    return diagnoseTree(this.tree, this.core.log);
  }

  /** Answers when everything appended so far survives the loss of power. Throws what keeps it from being written. */
  flush(): Promise<void> {
    return this.core.flush();
  }

  /** Tells `observer` of every change from now on; returns the function that ends it. */
  subscribe(observer: SessionObserver): () => void {
    return this.core.subscribe(observer);
  }

  /** Tells extensions of something that happened on this session, such as a turn of the agent. */
  tell<Payload extends object>(hook: NotifyHook<Payload>, payload: NoInfer<Payload>): Promise<void> {
    return this.host.has(hook) ? tellHandlers(this, hook, payload) : Promise.resolve();
  }

  /** Commands that extensions registered, in order. */
  get commands(): readonly ExtensionCommand[] {
    return [...this.extensionMembers.commands.values()];
  }

  /**
   * Runs a command that an extension registered, and waits for what it began.
   * @throws EspalierError `unknown-command`, `command-failed`
   */
  runCommand(name: string, args = "", signal?: AbortSignal): Promise<void> {
    return runCommand(this, name, args, signal);
  }

  /** Waits for what is under way, and lets go of the session. A second call waits for the first. */
  close(reason: ShutdownReason = "quit"): Promise<void> {
    this.#closing ??= this.#close(reason);
    return this.#closing;
  }

  async #close(reason: ShutdownReason): Promise<void> {
    this.#background.stop();
    await this.#comeToRest();
    const { id, file } = this;
    try {
      await tellHandlers(this, sessionShutdown, { sessionId: id, file, reason });
      await this.#comeToRest();
      await this.core.close();
    } finally {
      await this.lease?.release();
    }
  }

  /** See {@link SessionState}. */
  appendChecked(entries: readonly NewEntry[], check: () => void): Promise<Entry[]> {
    const batch = [...entries];
    this.#checks.set(batch, check);
    return this.core.append(batch);
  }

  /** See {@link SessionState}. */
  track(act: Promise<unknown>): void {
    void this.#untilClosed(act);
  }

  /** See {@link SessionState}. */
  async settle(): Promise<void> {
    await this.#comeToRest();
  }

  #untilClosed<Result>(ending: Promise<Result>): Promise<Result> {
    this.#endings.add(ending);
    const ended = () => this.#endings.delete(ending);
    ending.then(ended, ended);
    return ending;
  }

  /** What ends may have begun something more: an entry that is written begins what its mirrors do. */
  async #comeToRest(): Promise<void> {
    for (let round = 0; round < CLOSING_ROUNDS && this.#endings.size > 0; round++)
      await Promise.allSettled(this.#endings);
  }

  async #appendOne(entry: NewEntry): Promise<string> {
    const [appended] = await this.append(entry);
    return appended!.id;
  }

  async #transformed(drafts: readonly NewEntry[]): Promise<readonly NewEntry[]> {
    const transformed = await preparedEntries(this, drafts);
    // The last moment before the write: nothing of ours can come between.
    this.#checks.get(drafts)?.();
    return transformed;
  }

  #reportUnsettled(error: unknown): void {
    const reason = error instanceof Error ? error.message : String(error);
    this.log.error(`The settings of the model before stay in force: ${reason}`, { error });
  }

  #announce(entries: readonly Entry[]): void {
    if (!this.host.has(entryAppended)) return;
    // Nobody but `close` waits for mirrors.
    for (const entry of entries) void this.#untilClosed(tellHandlers(this, entryAppended, { entry }));
  }
}

/** What handlers made of the conversation, with the system's words, which are not theirs to drop, where they stood. */
function withSystem(before: readonly ContextMessage[], changed: readonly ContextMessage[]): ContextMessage[] {
  const messages = [...changed];
  let at = 0;
  for (const message of before) {
    if (message.role === "system") messages.splice(at++, 0, message);
    else if (messages[at] === message) at++;
    else at = Math.max(at, messages.indexOf(message) + 1);
  }
  return messages;
}

/** The line by which labels and names are shown. */
function shownLine(text: string, what: string): string {
  const line = oneLine(text);
  if (line === "")
    throw new EspalierError("not-text", `The ${what} is empty; give it at least one character.`);
  return line;
}
