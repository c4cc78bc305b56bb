// Separate from open.ts: most files of the engine take a session, few open one.
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
import { refuseNestedAppend, shownLine, transformDrafts } from "./append.ts";
import { PIN, pinnedOn, planHiding, redo, repeatPins, type UndoResult, undo } from "./edit.ts";
import { fillMessages, type MessageDraft } from "./message-draft.ts";
import {
  type ForkOptions,
  type ForkResult,
  forkSession,
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
  takeAll,
} from "./state.ts";

/**
 * An open session: the `SessionTree` of one log, with extensions, policies and settings. Agents embed it, and every
 * shell uses it. Reading is synchronous; every change is asynchronous and ends in one {@link append}.
 */
export class Session extends SessionTree {
  readonly store: SessionStore;
  /** Handlers of the session's extensions. */
  readonly host: EngineHost;
  /** Publishes compactions (progress, results, failures), tool results moved to files, and images left out. */
  readonly events: EventBus;
  /** Receives warnings, and errors that do not stop an operation. */
  readonly logger: PolicyLog;
  /** Commands and flags that extensions registered, their shared bus, and their queue of dialogs. */
  readonly extensionMembers = new ExtensionMembers();
  readonly #settings: CurrentSettings;
  #offloadStorage: OffloadStorage | undefined;
  /** Set when the policy evaluates every append. */
  #background: BackgroundPolicy | undefined;
  /** Other writer of the session: set when the session is read-only, shared, or a fork because of that writer. */
  heldBy: LeaseHolder | undefined;
  /** Lease for writing, released on closing; undefined when read-only, shared, or opened with `lease: false`. */
  lease: SessionLease | undefined;
  /** True when the log is open for reading only: it refuses each write. */
  isReadOnly = false;
  #closing: Promise<void> | undefined;
  #compaction: Promise<CommittedCompaction | NothingToCompact> | undefined;
  /** Work for which closing waits: compactions until their last event, handlers of `entry_appended` until their end. */
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

  /** Adopts `settled`, and calls `settle` when the model changes; each result overrides the earlier options. */
  settleBy(settle: Settle, settled: SessionOptions): void {
    this.#settings.follow(settle, settled, currentModel(this));
  }

  /** Storage of results that were moved out of the context; undefined if none was given and the log is not a file. */
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

  /** Returns the context for a request: that of the leaf, shaped by the policy, then by extensions. */
  contextToSend(signal?: AbortSignal): Promise<SessionContext> {
    return contextToSend(this, signal);
  }

  /**
   * Prepares the next request: results move to files, the policy compacts, images are left out, the context is shaped. A
   * failure of the first three is only reported, if the request fits the model's window and its provider's byte limit.
   *
   * @throws EspalierError `over-window`, `over-bytes`, `over-budget`, `bad-tool`; errors of {@link compact} and the log
   */
  async prepareRequest(options?: RequestPreparation): ReturnType<typeof prepareRequest> {
    await this.#settings.pending;
    return prepareRequest(this, options);
  }

  /** Appends a user message, after error results for calls without a result. Throws `bad-input` if blank or invalid. */
  say(content: Parameters<typeof say>[1], options?: Parameters<typeof say>[2]): Promise<Entry> {
    return say(this, content, options);
  }

  /**
   * Prepares the next request in the form of the provider's SDK: compacted, repaired, within every limit.
   *
   * @throws EspalierError `empty-context` when no message waits for an answer; errors of `Session.prepareRequest`
   */
  next<Params>(provider: Provider<Params>, options?: NextOptions): Promise<TurnRequest<Params>> {
    return nextRequest(this, provider, options);
  }

  /**
   * Sends a request and records the answer. A failed or aborted answer is recorded too, and the error is thrown. If the
   * request was too long and its answer is incomplete, the session is compacted and the request is sent once more. After
   * an answer without calls, the session is compacted if that is due.
   *
   * @throws the SDK's error, the abort's reason; EspalierError `overflow`, `auto-off`, `moved`; errors of {@link next}
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

  /** The current label of an entry; undefined when it has none. */
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
   * Appends entries under the leaf, in one write; resolves when they are as durable as `options` or their kinds ask. In
   * this order (steps 1 to 3 are in `append.ts`, the others in `SessionTree.append`):
   *
   * 1. admit: no handler of `entry_before_append` appends to the session that waits for it;
   * 2. hooks, after earlier appends have ended: every given entry passes through `entry_before_append`;
   * 3. redact: secrets are removed from the result of the hooks; rules in a user's message are added to the batch;
   * 4. check: the caller's last chance to refuse, such as a compaction whose path has changed;
   * 5. prepare: ids, parents and times are filled in, and every entry is checked, before anything is written;
   * 6. write: the log writes the lines at once; after a failure (full disk), the first of them can be in the file;
   * 7. follow: the tree, the leaf and the context grow by the entries;
   * 8. notify: observers are notified, including the session itself (see `#followChange`);
   * 9. sync: the log is flushed to disk if `options` or a kind asks for it.
   *
   * @throws EspalierError `invalid-entry`, `unknown-parent`, `off-path`, `nested-append`, …; the session has not changed
   * then, except after `sync-failed`: its entries are in the log, and may not survive a loss of power
   */
  override async append(drafts: Drafts, options?: Omit<AppendOptions, "transform">): Promise<Entry[]> {
    refuseNestedAppend(this);
    const rules = new Set<string>();
    const transform: AppendOptions["transform"] = (...given) => transformDrafts(this, rules, ...given);
    const appended = await super.append(drafts, { ...options, transform });
    await this.#settings.pending;
    return rules.size === 0 ? appended : appended.filter(({ id }) => !rules.has(id));
  }

  /** Follows an append: sends `entry_appended`, reads the settings of a new model, lets the policy evaluate. */
  #followChange(change: SessionChange): void {
    if (change.type === "foreign" && this.lease) void this.track(repeatPins(this, change));
    if (change.type !== "appended") return;
    // Only `close` waits for these handlers.
    if (this.host.has(entryAppended))
      for (const entry of change.entries) void this.track(this.tell(entryAppended, { entry }));
    this.#settings.pathHasGrown(this);
    const judge = () => {
      if (this.#closing || this.policy.judgedAt !== "append") return;
      this.#background ??= new BackgroundPolicy(this);
      this.#background.entriesAppended(change.entries);
    };
    // The policy depends on the limits of the new model.
    if (this.#settings.pending) void this.track(this.#settings.pending.then(judge));
    else judge();
  }

  /** Appends messages and fills in missing fields, as `fillMessage` does. Throws `bad-input` for an invalid message. */
  async appendMessages(
    drafts: readonly MessageDraft[],
    options?: Omit<AppendOptions, "transform">,
  ): Promise<Entry[]> {
    return this.append(fillMessages(drafts, this.context), options);
  }

  /** Plans a compaction at the leaf and forecasts its effect on the prompt cache. Calls no model, writes nothing. */
  planCompaction(request: CompactionRequest = {}): ReturnType<typeof forecastPlan> {
    return forecastPlan(this, request);
  }

  /**
   * Compacts the leaf's path: a plan, the hook `session_before_compact`, the summary, one {@link append}, and the event
   * `session_compact` or `session_compact_failed`. Nothing to compact is a result, not an error; a failure throws, and
   * appends the usage of its requests at most. Only one compaction runs at a time: an automatic one joins it, a manual
   * one is refused.
   *
   * @throws EspalierError `already-running`, `no-smaller`, `stale`, `irreducible`, `read-only`, `aborted`; `cancelled` for
   * a veto; `auto-off` and `exhausted` unless `reason` is `manual`; errors of the summarizer and of {@link append}
   */
  async compact(options: CompactionRequest = {}): Promise<CommittedCompaction | NothingToCompact> {
    while (this.#settings.pending) await this.#settings.pending;
    if (this.#compaction) {
      if ((options.reason ?? "manual") !== "manual") return this.#compaction;
      throw new EspalierError(
        "already-running",
        "A compaction of this session is running; wait for it or abort it.",
      );
    }
    // It ends after the write and before the events: a handler may compact again.
    this.#compaction = runCompaction(this, options, () => {
      this.#compaction = undefined;
    });
    return this.track(this.#compaction);
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

  /** Returns the current time in epoch milliseconds. */
  now(): number {
    return this.options.now?.() ?? Date.now();
  }

  /** True while a compaction is running. */
  get isCompacting(): boolean {
    return this.#compaction !== undefined;
  }

  /**
   * Compacts if the policy finds it due, or if the next answer would have no reserve left. Undefined when neither holds,
   * or when automatic compaction is off.
   *
   * @throws EspalierError `exhausted` after two automatic compactions without an answer between; as {@link compact}
   */
  async compactWhenDue(
    options: CompactionRequest = {},
  ): Promise<CommittedCompaction | NothingToCompact | undefined> {
    await this.#settings.pending;
    return compactWhenDue(this, options);
  }

  /**
   * Moves the leaf inside the session. For a user or custom message, moves it before the message and returns its text
   * for editing. null: before the first entry. With `summarize`, the abandoned branch is summarized into the target.
   *
   * @throws EspalierError `unknown-entry`, `cancelled` for a veto, `aborted`, `read-only`; with `summarize` also `stale`
   * and errors of the summarizer. The leaf does not move then
   */
  navigate(targetId: string | null, options?: NavigateOptions): Promise<NavigateResult> {
    return navigate(this, targetId, options);
  }

  /**
   * Undoes the newest prompt, navigation, `compact`, `hide`, label, name or pin. Throws `nothing-to-undo`; `stale` when
   * the newest action is not `expected`: the id of its entry, as `LastAct` has it. Default: any action.
   */
  undo({ expected }: { expected?: string } = {}): Promise<UndoResult> {
    return undo(this, expected);
  }

  /** Repeats the action that `undo` took back, if no other action followed. Throws `nothing-to-redo`; `stale` as `undo`. */
  redo({ expected }: { expected?: string } = {}): Promise<UndoResult> {
    return redo(this, expected);
  }

  /** Starts a session from a path of this one. Throws `unknown-entry`, `exists`, `cancelled`, `aborted`; see `forkSession`. */
  fork(entryId: string, options?: ForkOptions): Promise<ForkResult> {
    return forkSession(this, entryId, options);
  }

  /**
   * Summarizes another branch into this one. Merging the same leaf again writes nothing. Throws `nothing-to-merge`,
   * `unknown-entry`, `read-only`, `stale`, `aborted`, and errors of the summarizer.
   */
  merge(fromId: string, options?: MergeOptions): Promise<MergeResult> {
    return mergeBranch(this, fromId, options);
  }

  /** Labels an entry; no text removes the label. Returns the new entry's id. Throws `unknown-entry`, `not-text`. */
  async label(targetId: string, text?: string): Promise<string> {
    const given = text ? { label: shownLine(text, "label") } : {};
    return this.#appendOne(label.of({ targetId, ...given }), targetId);
  }

  /** Names the session. Returns the id of the entry with the name. Throws `not-text` for a blank name. */
  async rename(name: string): Promise<string> {
    return this.#appendOne(sessionInfo.of({ name: shownLine(name, "name") }));
  }

  /** Pins an entry (compactions keep it verbatim) or unpins it. Returns the new entry's id. Throws `unknown-entry`. */
  async pin(targetId: string, pinned = true): Promise<string> {
    return this.#appendOne(custom.of({ customType: PIN, data: { targetId, pinned } }), targetId);
  }

  /**
   * Removes an entry of the leaf's path from the context, or restores it. No line is rewritten; other branches keep the
   * entry. Returns the id of the edit; null when the entry was already in that state. Restoring writes the content
   * again. A line of another program that is longer than Espalier writes (16 MiB) is restored only by `undo`.
   *
   * @throws EspalierError `unknown-entry`, `invalid-entry` for such a line; `not-in-context` for an entry out of context
   */
  async hide(targetId: string, hidden = true): Promise<string | null> {
    const [edit] = await this.append(() => planHiding(this, targetId, hidden));
    return edit?.id ?? null;
  }

  async #appendOne(entry: NewEntry, ...targets: string[]): Promise<string> {
    const drafts = () => {
      for (const id of targets) this.tree.row(id);
      return [entry];
    };
    return (await this.append(drafts))[0]!.id;
  }

  /** Replays the session: yields its state after each entry, in file order. */
  replay(options?: ReplayOptions): Generator<ReplayStep> {
    return replay(this.tree, options);
  }

  /** Finds the issues of the session's lines. Changes nothing. */
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
      // Uses a separate signal: the event may report an abort.
      await this.host.notify(hook, payload, contextForHandlers(this));
    } catch (error) {
      if (!(error instanceof ExtensionError)) throw error;
    }
  }

  /** Commands that extensions registered, in the order of registration. */
  get commands(): readonly ExtensionCommand[] {
    return [...this.extensionMembers.commands.values()];
  }

  /** Runs a command of an extension, and waits for the work it started. Throws `unknown-command`, `command-failed`. */
  runCommand(name: string, args = "", signal?: AbortSignal): Promise<void> {
    return runCommand(this, name, args, signal);
  }

  /** Waits for tracked work, notifies extensions, and releases the session. A second call waits for the first. */
  override close(reason: ShutdownReason = "quit"): Promise<void> {
    this.#closing ??= this.#close(reason);
    return this.#closing;
  }

  async #close(reason: ShutdownReason): Promise<void> {
    this.#background?.stop();
    await this.settle();
    await takeAll(
      this.logger,
      () => this.tell(sessionShutdown, { sessionId: this.id, file: this.file, reason }),
      () => this.settle(),
      () => super.close(),
      () => this.lease?.release(),
    );
  }

  /** Registers work for which `close` waits, such as an extension's work without a waiting caller. Returns the work. */
  track<Result>(act: Promise<Result>): Promise<Result> {
    this.#endings.add(act);
    const ended = () => this.#endings.delete(act);
    act.then(ended, ended);
    return act;
  }

  /** Waits for tracked work, and for work that it began (at most 10 rounds), such as handlers of `entry_appended`. */
  async settle(): Promise<void> {
    for (let round = 0; round < 10 && this.#endings.size > 0; round++)
      await Promise.allSettled(this.#endings);
  }
}
