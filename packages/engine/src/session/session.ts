import type { NothingToCompact, Policy } from "@espalier/compaction";
import {
  type CompactResult,
  EventBus,
  type OffloadStorage,
  type PolicyLog,
} from "@espalier/compaction/policies";
import { ExtensionError, type ExtensionReport, type NotifyHook } from "@espalier/extensions";
import { EspalierError, type LeaseHolder } from "@espalier/jsonl-stream";
import {
  type AppendOptions,
  type Branch,
  branches,
  custom,
  type Drafts,
  type Entry,
  label,
  labelsInForce,
  type NewEntry,
  type PathWindow,
  type SessionChange,
  type SessionContext,
  type SessionLease,
  type SessionLog,
  type SessionStore,
  SessionTree,
  sessionInfo,
  sessionName,
} from "@espalier/session-tree";
import type { CommittedCompaction, CompactionRequest } from "../compaction/draft.ts";
import { offloadStorageOf } from "../compaction/offload.ts";
import {
  comparePolicies,
  forecastPlan,
  type PolicyComparison,
  type RequestExtras,
} from "../compaction/request.ts";
import { BackgroundPolicy, compactWhenDue, forceCompact, runCompaction } from "../compaction/run.ts";
import { contextForHandlers } from "../extensions/context.ts";
import { runCommand } from "../extensions/extension.ts";
import { ExtensionMembers, emptyHost } from "../extensions/load.ts";
import type { ExtensionCommand } from "../extensions/members.ts";
import { type Diagnosis, diagnoseTree } from "../repair/diagnose.ts";
import {
  type NextOptions,
  nextRequest,
  type RecordOptions,
  recordAnswer,
  say,
  type TurnRequest,
} from "../turn/ask.ts";
import type { Provider } from "../turn/provider.ts";
import type { Turn } from "../turn/turn.ts";
import { refuseNestedAppend, transformDrafts } from "./append.ts";
import { fillMessages, type MessageDraft, PIN, pinnedOn, planHiding, shownLine } from "./edit.ts";
import { type ForkOptions, type ForkResult, forkSession } from "./fork.ts";
import {
  type MergeOptions,
  type MergeResult,
  mergeBranch,
  type NavigateOptions,
  type NavigateResult,
  navigate,
} from "./navigate.ts";
import { contextToSend, prepareRequest, type RequestPreparation } from "./prepare-request.ts";
import { type ReplayOptions, type ReplayStep, replay } from "./replay.ts";
import {
  CurrentSettings,
  currentModel,
  type EngineHost,
  entryAppended,
  type SessionOptions,
  type Settle,
  type ShutdownReason,
  sentencesOnStderr,
  sessionShutdown,
  shapedContext,
} from "./state.ts";
import { redo, type UndoResult, undo } from "./undo.ts";

/** Most rounds in which closing waits for work that began meanwhile: a handler that answers every entry by an entry never ends. */
const CLOSING_ROUNDS = 10;

/**
 * An open session: the `SessionTree` of one log, with extensions, policies and settings. Agents embed it, and every shell
 * acts through it. Reading is synchronous; every change is asynchronous and ends in one {@link append}.
 */
export class Session extends SessionTree {
  readonly store: SessionStore;
  /** The handlers of the session's extensions. */
  readonly host: EngineHost;
  /** Publishes progress, changes, and compactions that failed. */
  readonly events: EventBus;
  /** Receives warnings and errors that stop nothing. */
  readonly logger: PolicyLog;
  /** Everything that extensions registered, handlers apart, and the bus that they share. */
  readonly extensionMembers = new ExtensionMembers();
  readonly #settings: CurrentSettings;
  #offloadStorage: OffloadStorage | undefined;
  /** Set once the policy judges every append. */
  #background: BackgroundPolicy | undefined;
  /** The other writer of the session: set where the session is read only, shared, or a fork because of it. */
  heldBy: LeaseHolder | undefined;
  /** Released when the session is closed. */
  lease: SessionLease | undefined;
  /** True when every write is refused. */
  isReadOnly = false;
  #closing: Promise<void> | undefined;
  #compaction: Promise<CommittedCompaction | NothingToCompact> | undefined;
  /** Work that closing waits for: compactions up to their last event, handlers of `entry_appended` up to their end. */
  readonly #endings = new Set<Promise<unknown>>();

  constructor(
    log: SessionLog,
    window: PathWindow,
    store: SessionStore,
    options: SessionOptions = {},
    onReport: (report: ExtensionReport) => void = () => {},
  ) {
    super(log, window);
    this.store = store;
    this.#settings = new CurrentSettings(options);
    this.host = emptyHost(onReport);
    this.events = options.events ?? new EventBus();
    this.logger = options.log ?? sentencesOnStderr;
    this.subscribe((change) => this.#followChange(change));
  }

  /** The session's options, with the settings for the current model. */
  get options(): SessionOptions {
    return this.#settings.options;
  }

  /** Decides when to compact and what to keep. */
  get policy(): Policy {
    return this.#settings.policy;
  }

  /** Adopts `settled`, and calls `settle` again whenever the model changes; its result overrides the settings before. */
  settleBy(settle: Settle, settled: SessionOptions): void {
    this.#settings.follow(settle, settled, currentModel(this));
  }

  /** Storage of results that were moved out of the context; undefined when the session is not a file and none was given. */
  get offloadStorage(): OffloadStorage | undefined {
    this.#offloadStorage ??= this.options.offloadStorage ?? offloadStorageOf(this.log);
    return this.#offloadStorage;
  }

  /** The path of the session's file, or its address in another store. */
  get file(): string {
    return this.log.ref;
  }

  /** The session's name; undefined when it has none. */
  get name(): string | undefined {
    return sessionName(this.tree);
  }

  /** The context as the policy shapes it for a request. */
  get requestContext(): SessionContext {
    return shapedContext(this.context, this.policy.shape?.(this.context) ?? this.context.messages);
  }

  /** The context that goes into a request: that of the leaf, shaped by the policy, then by extensions. */
  contextToSend(signal?: AbortSignal): Promise<SessionContext> {
    return contextToSend(this, signal);
  }

  /**
   * Prepares the next request: results move to files, the policy compacts, and the context is shaped. Fails open, as long
   * as the request fits the model's window and the bytes that its provider takes.
   *
   * @throws EspalierError `over-window`, `over-bytes` and as {@link compact}; EspalierError when the log cannot be written
   */
  async prepareRequest(options?: RequestPreparation): ReturnType<typeof prepareRequest> {
    await this.#settings.pending;
    return prepareRequest(this, options);
  }

  /** Appends what the user says, after results for calls that have none. Throws `bad-input` for a blank text. */
  say(content: Parameters<typeof say>[1], options?: Parameters<typeof say>[2]): Promise<Entry> {
    return say(this, content, options);
  }

  /**
   * Prepares the next request, as the provider's SDK takes it: compacted, healed, within every limit.
   *
   * @throws EspalierError `empty-context` where there is nothing to answer; what {@link prepareRequest} throws
   */
  next<Params>(provider: Provider<Params>, options?: NextOptions): Promise<TurnRequest<Params>> {
    return nextRequest(this, provider, options);
  }

  /**
   * Sends a request and records the answer; one that failed or was aborted is recorded as that, and the error is thrown. A
   * request that was too long is compacted and sent once more.
   *
   * @throws the SDK's error, or the abort's reason; EspalierError `overflow`, `auto-off`, `moved`
   */
  async record<Params>(
    provider: Provider<Params>,
    request: TurnRequest<Params>,
    options?: RecordOptions<Params>,
  ): Promise<Turn> {
    const turn = await recordAnswer(this, provider, request, options);
    if (turn.error !== undefined) throw turn.error;
    return turn;
  }

  /** All entries, in the order of the file. */
  getEntries(): Entry[] {
    return [...this.tree.entries()];
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
   * Appends entries under the leaf, in one write; resolves when they are in the log. In this order:
   *
   * 1. admit: no handler of `entry_before_append` appends to the session that waits for it;
   * 2. hooks, when the appends before have ended: every entry passes through `entry_before_append`;
   * 3. redact: secrets are taken out of what the hooks returned; rules in a user's message join the batch;
   * 4. check: the caller's last chance to refuse, such as a compaction whose path has changed;
   * 5. prepare: ids, parents and times are filled in, and every entry is checked, before anything is written;
   * 6. write: the lines are in the log, all or none;
   * 7. follow: the tree, the leaf and the context grow by the entries;
   * 8. tell: observers are notified, the session among them (see `#followChange`).
   *
   * @throws EspalierError `invalid-entry`, `unknown-parent`, `off-path`, … and nothing has changed; EspalierError `nested-append`
   */
  override async append(drafts: Drafts, options?: Omit<AppendOptions, "transform">): Promise<Entry[]> {
    refuseNestedAppend(this);
    const rules = new Set<string>();
    const transform = (batch: readonly NewEntry[]) => transformDrafts(this, batch, rules);
    const appended = await super.append(drafts, { ...options, transform });
    await this.#settings.pending;
    return rules.size === 0 ? appended : appended.filter(({ id }) => !rules.has(id));
  }

  /** Follows an append of this session: sends `entry_appended`, finds the settings of a new model, lets the policy judge. */
  #followChange(change: SessionChange): void {
    if (change.type !== "appended") return;
    const { entries } = change;
    // Only `close` waits for these handlers.
    if (this.host.has(entryAppended))
      for (const entry of entries) void this.#untilClosed(this.tell(entryAppended, { entry }));
    this.#settings.pathHasGrown(
      () => currentModel(this),
      (error) => {
        const reason = error instanceof Error ? error.message : String(error);
        this.logger.error(`The settings of the model before stay current: ${reason}`, { error });
      },
    );
    const judge = () => {
      if (this.#closing || this.policy.judgedAt !== "append") return;
      this.#background ??= new BackgroundPolicy(this);
      this.#background.entriesAppended(entries);
    };
    // Another model may have other limits, by which the policy judges.
    if (this.#settings.pending) void this.#untilClosed(this.#settings.pending.then(judge));
    else judge();
  }

  /** Appends messages, filling in what a draft leaves out; see `fillMessage`. Throws `bad-input`, as it does. */
  async appendMessages(
    drafts: readonly MessageDraft[],
    options?: Omit<AppendOptions, "transform">,
  ): Promise<Entry[]> {
    return this.append(fillMessages(drafts, this.context), options);
  }

  /** Plans a compaction at the leaf, with its effect on the prompt cache. Pure: no model is called, nothing is written. */
  planCompaction(request: CompactionRequest = {}): ReturnType<typeof forecastPlan> {
    return forecastPlan(this, request);
  }

  /**
   * Compacts the leaf's path: a plan, the hook `session_before_compact`, the summary, one {@link append}, and the event
   * `session_compact` or `session_compact_failed`. Nothing to compact is a result, not an error; a failure throws and
   * leaves the session unchanged. Only one compaction runs at a time: an automatic one joins it, a manual one is refused.
   *
   * @throws EspalierError `already-running`, `no-smaller`, `stale`, `irreducible`; EspalierError; `cancelled`
   */
  compact(options: CompactionRequest = {}): Promise<CommittedCompaction | NothingToCompact> {
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
    // It may have ended already.
    if (!isOver) this.#compaction = running;
    return this.#untilClosed(running);
  }

  /**
   * Compacts regardless of the thresholds. Nothing to compact is a success; a failed summary is `success: false`, and the
   * conversation stays unchanged. Throws as {@link compact} for everything else.
   */
  forceCompact(options: CompactionRequest = {}): Promise<CompactResult> {
    return forceCompact(this, options);
  }

  /** Compares the plans that each policy would make now. No model is called, nothing is written. */
  comparePolicies(extras?: RequestExtras): PolicyComparison[] {
    return comparePolicies(this, extras);
  }

  /** True while the policy compacts in the background. */
  get isConsolidating(): boolean {
    return this.#background?.isRunning ?? false;
  }

  /** True when the policy found a compaction due while one was running. */
  get pendingConsolidation(): boolean {
    return this.#background?.isPending ?? false;
  }

  /** The time, epoch milliseconds. */
  now(): number {
    return this.options.now?.() ?? Date.now();
  }

  /** True while a compaction is running. */
  get isCompacting(): boolean {
    return this.#compaction !== undefined;
  }

  /**
   * Compacts if the policy finds it due. Undefined when it does not, or when automatic compaction is off.
   * @throws EspalierError `exhausted` after two in a row with no answer of the model between, and as {@link compact}
   */
  async compactWhenDue(
    options: CompactionRequest = {},
  ): Promise<CommittedCompaction | NothingToCompact | undefined> {
    await this.#settings.pending;
    return compactWhenDue(this, options);
  }

  /**
   * Moves the leaf inside the session. To a user or custom message: before it, and its text comes back for editing.
   * null: before the first entry. With `summarize`, the abandoned branch is summarized into the target.
   *
   * @throws EspalierError `unknown-entry`; EspalierError; `cancelled` for a veto: the leaf stays
   */
  navigate(targetId: string | null, options?: NavigateOptions): Promise<NavigateResult> {
    return navigate(this, targetId, options);
  }

  /** Undoes the newest prompt, navigation, `compact`, `hide`, label, name or pin; again, the one before. Throws `nothing-to-undo`. */
  undo(): Promise<UndoResult> {
    return undo(this);
  }

  /** Does again what `undo` took back, while nothing else was done since. Throws `nothing-to-redo`. */
  redo(): Promise<UndoResult> {
    return redo(this);
  }

  /** Starts a new session from a path of this one. Throws `unknown-entry`, `exists`, `cancelled`. */
  fork(entryId: string, options?: ForkOptions): Promise<ForkResult> {
    return forkSession(this, entryId, options);
  }

  /** Summarizes another branch into this one, without leaving either. Merging the same leaf again writes nothing. */
  merge(fromId: string, options?: MergeOptions): Promise<MergeResult> {
    return mergeBranch(this, fromId, options);
  }

  /** Gives an entry a label; an empty text or none clears it. Returns the id of the label's entry. */
  async label(targetId: string, text?: string): Promise<string> {
    (await this.load()).row(targetId);
    return this.#appendOne(label.of({ targetId, ...(text ? { label: shownLine(text, "label") } : {}) }));
  }

  /** Names the session. Returns the id of the entry that holds the name. */
  async rename(name: string): Promise<string> {
    return this.#appendOne(sessionInfo.of({ name: shownLine(name, "name") }));
  }

  /** Keeps an entry in the context, word for word, over compactions; or no longer. Returns the id of the pin's entry. */
  async pin(targetId: string, pinned = true): Promise<string> {
    (await this.load()).row(targetId);
    return this.#appendOne(custom.of({ customType: PIN, data: { targetId, pinned } }));
  }

  /**
   * Leaves an entry of the leaf's path out of the context from here on, or brings it back. Nothing is rewritten: above
   * the edit, on other branches and in the file the entry is unchanged. Returns the id of the edit; null when nothing had
   * to change and nothing was written. Bringing an entry back writes its content once more. A line of another program
   * that is longer than Espalier writes (16 MiB) comes back by `undo` alone.
   *
   * @throws EspalierError `unknown-entry`, `invalid-entry` for such a line; `not-in-context`: nothing that the model reads
   */
  async hide(targetId: string, hidden = true): Promise<string | null> {
    await this.load();
    const edit = planHiding(this, targetId, hidden);
    return edit ? this.#appendOne(edit) : null;
  }

  async #appendOne(entry: NewEntry): Promise<string> {
    const [appended] = await this.append(entry);
    return appended!.id;
  }

  /** Plays the session back, entry by entry. */
  replay(options?: ReplayOptions): Generator<ReplayStep> {
    return replay(this.tree, options);
  }

  /** Finds what is wrong with the session's lines. Changes nothing. */
  diagnose(): Diagnosis {
    return diagnoseTree(this.tree, this.log);
  }

  /**
   * Notifies extensions of an event of this session, such as a turn of the agent. A critical handler that fails cannot
   * undo the event; the host reports the failure.
   */
  async tell<Payload extends object>(hook: NotifyHook<Payload>, payload: NoInfer<Payload>): Promise<void> {
    if (!this.host.has(hook)) return;
    try {
      // With a signal of its own: the event may be that something was aborted.
      await this.host.notify(hook, payload, contextForHandlers(this));
    } catch (error) {
      if (!(error instanceof ExtensionError)) throw error;
    }
  }

  /** Commands that extensions registered, in order. */
  get commands(): readonly ExtensionCommand[] {
    return [...this.extensionMembers.commands.values()];
  }

  /** Runs a command that an extension registered, and waits for the work it started. Throws `unknown-command`, `command-failed`. */
  runCommand(name: string, args = "", signal?: AbortSignal): Promise<void> {
    return runCommand(this, name, args, signal);
  }

  /** Waits for running work, and releases the session. A second call waits for the first. */
  override close(reason: ShutdownReason = "quit"): Promise<void> {
    this.#closing ??= this.#close(reason);
    return this.#closing;
  }

  async #close(reason: ShutdownReason): Promise<void> {
    this.#background?.stop();
    await this.settle();
    const { id, file } = this;
    try {
      await this.tell(sessionShutdown, { sessionId: id, file, reason });
      await this.settle();
      await super.close();
    } finally {
      await this.lease?.release();
    }
  }

  /** Makes closing wait for work that an extension began and no caller waits for. */
  track(act: Promise<unknown>): void {
    void this.#untilClosed(act);
  }

  /** Waits for tracked work, and for work that it began, such as handlers of `entry_appended`. */
  async settle(): Promise<void> {
    for (let round = 0; round < CLOSING_ROUNDS && this.#endings.size > 0; round++)
      await Promise.allSettled(this.#endings);
  }

  #untilClosed<Result>(ending: Promise<Result>): Promise<Result> {
    this.#endings.add(ending);
    const ended = () => this.#endings.delete(ending);
    ending.then(ended, ended);
    return ending;
  }
}
