import { trustedTokens } from "@espalier/compaction";
import { type CompactResult, type EventBus, EventType } from "@espalier/compaction/policies";
import {
  agentEnd,
  agentSettled,
  agentStart,
  type CompactionRequest,
  isAbort,
  isAnswered,
  type Limits,
  limitsOf,
  missingResults,
  nextRequest,
  openCalls,
  type Provider,
  type RunState,
  recordAnswer,
  runStateOf,
  type Session,
  type Turn,
  type TurnEvent,
  TurnLog,
  turnEnd,
  turnStart,
  windowOf,
  writerOf,
} from "@espalier/engine";
import { EspalierError } from "@espalier/jsonl-stream";
import {
  type AssistantMessage,
  type ContextMessage,
  createId,
  custom,
  type Entry,
  isBlank,
  isCustom,
  message,
  modelChange,
  type NewEntry,
  type ToolCallBlock,
  type ToolResultMessage,
  Turns,
} from "@espalier/session-tree";
import { definitionOf, type RunToolsOptions, runTool, type Tool } from "./tool.ts";

/** Summarizer of an agent. Default: the session's own. */
export type SummaryWriter = Pick<CompactionRequest, "summarizer" | "fallback">;

/** Options of an {@link Agent}. The agent does not close the session; its caller does. */
export interface AgentOptions {
  /** Session that stores everything, with its extensions, policies and settings. */
  session: Session;
  /** Model that answers, until `setModel` is called. */
  model: Provider;
  /**
   * Tools that the model can call. Tools of the provider value are sent too, but the agent cannot run them. Default:
   * none.
   */
  tools?: readonly Tool[];
  /** System prompt, after that of the provider value. A policy can add to it. Default: none. */
  system?: string;
  /**
   * Called before a tool with `asksFirst`, which writes or runs something; returns whether the user allows the call.
   * Default: such calls are refused.
   */
  approve?: RunToolsOptions["approve"];
  /** Milliseconds before a request that was too long is retried. Default 100. */
  overflowRetryDelayMs?: number;
}

/** Limits of one run. */
export interface RunOptions {
  /** Maximum number of rounds of tool calls before an answer. A queued prompt resets the count. Default 50. */
  maxIterations?: number;
}

/** Events of a run, in order. */
export type AgentEvent =
  | { type: "agent_start" }
  | TurnEvent
  /** A prompt was queued during a run; `waiting` prompts are queued now. */
  | { type: "queued"; text: string; waiting: number }
  /** Tool results were moved to files, from which the model can read them. */
  | { type: "offload_done"; offloadedCount: number; freedTokens: number }
  /** Images of this many messages are left out of this and later requests, because the provider would refuse them. */
  | { type: "pictures_left_out"; messages: number; reasons: readonly string[] }
  /** A compaction begins. `message` has the fill level of the context: `Context at 85% - compacting`. */
  | { type: "compact_start"; message: string }
  /** A compaction succeeded. Sizes in tokens, and the number of messages that the summary replaces. */
  | { type: "compact_done"; tokensBefore: number; tokensAfter: number; messagesRemoved: number }
  /** A compaction replaced the messages that the model reads. A listener that shows a copy has to rebuild it. */
  | { type: "messages_replaced"; messages: readonly ContextMessage[] }
  /**
   * The run is over. `lastAssistantMessage` is null when the run has no answer. `messages` is the context at the end.
   */
  | { type: "agent_end"; lastAssistantMessage: AssistantMessage | null; messages: readonly ContextMessage[] };

/** Receives an agent's events, one after the other. The run waits until the listener returns. */
export type AgentListener = (event: AgentEvent) => void;

/** The model requested tools more often than allowed. All results are stored. */
export class MaxIterations extends EspalierError {
  override readonly name = "MaxIterations";
  readonly iterations: number;
  constructor(iterations: number) {
    super(
      "max-iterations",
      `The model asked for tools ${iterations} times without an answer; continue with another prompt, or allow more iterations.`,
    );
    this.iterations = iterations;
  }
}

interface Run {
  readonly controller: AbortController;
  /** Entries of the run. */
  readonly log: TurnLog;
  /** Newest answer of this run. */
  last: AssistantMessage | null;
}

/** A reference agent: a session, a model, tools, and one loop over the turns of the engine. */
export class Agent {
  /** Session of the agent. */
  readonly session: Session;
  readonly #options: AgentOptions;
  readonly #queue: InputQueue;
  readonly #listeners = new Set<AgentListener>();
  /** Requests with their tools, and compactions by the user, run one at a time. */
  readonly #turns = new Turns();
  #model: Provider;
  #run: Run | undefined;
  #compaction: AbortController | undefined;

  constructor(options: AgentOptions) {
    this.session = options.session;
    this.#model = options.model;
    this.#options = options;
    this.#queue = new InputQueue(options.session);
    tellSessionEvents(options.session.events, (event) => {
      this.#tell(event);
      if (event.type === "compact_done") this.replaceMessages(this.session.context.messages);
    });
  }

  /** Model that answers the next request. */
  get model(): Provider {
    return this.#model;
  }

  /** True during a run: a prompt given to `run` is then queued. */
  get isRunning(): boolean {
    return this.#run !== undefined;
  }

  /** Prompts that are waiting, in order. */
  get queued(): QueuedInput[] {
    return this.#queue.waiting;
  }

  /** Size of the next request without its prompt, in tokens: counts of the provider, and an estimate of the rest. */
  get contextTokens(): number {
    return trustedTokens(this.session.context, this.#limits.overheadTokens);
  }

  /** Tokens that the model can read: its own window, or less if its provider reported a smaller one in this session. */
  get contextWindow(): number {
    return windowOf(this.session, this.#model);
  }

  /** Summarizer for navigation and forks of the session. */
  get summaries(): SummaryWriter {
    return writerOf(this.session, this.#model);
  }

  /** State of the conversation, and calls without a result. Show it after a restart. */
  get state(): RunState & { openCalls: ToolCallBlock[] } {
    return { ...runStateOf(this.session), openCalls: openCalls(this.session.context.messages) };
  }

  /** Calls `listener` for every event from now on. Returns a function that removes it. */
  on(listener: AgentListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Stores a change of the model in the session; from then on, requests go to this model. */
  async setModel(model: Provider): Promise<void> {
    const { provider, modelId } = model;
    const log = this.#run?.log ?? this.#newLog();
    await log.append([modelChange.of({ provider, modelId })]);
    this.#model = model;
  }

  /**
   * Sends a prompt to the model and runs until it has answered. During a run, the prompt is queued and delivered in
   * order. Returns the last answer, also a failed or aborted one (`stopReason`); null for a queued prompt, and for a run
   * that was aborted before an answer.
   *
   * @throws EspalierError `bad-input`, `overflow`, `moved`; MaxIterations; errors of `session.prepareRequest`
   */
  async run(userMessage: string, options: RunOptions = {}): Promise<AssistantMessage | null> {
    if (isBlank(userMessage))
      throw new EspalierError(
        "bad-input",
        "The prompt is blank, and no provider accepts a blank prompt; give it a text.",
      );
    const said = { role: "user" as const, content: userMessage, timestamp: Date.now() };
    if (!this.isRunning) return this.#work(options, message.of({ message: said }));
    await this.#queue.add(userMessage);
    this.#tell({ type: "queued", text: userMessage, waiting: this.queued.length });
    return null;
  }

  /**
   * Continues the conversation without a new prompt. Returns as {@link run}; null also when there is nothing to answer.
   *
   * @throws EspalierError `busy` during a run; errors of {@link run}
   */
  async continue(options: RunOptions = {}): Promise<AssistantMessage | null> {
    if (!this.isRunning) return this.#work(options);
    throw new EspalierError("busy", "A run is active; wait for it or abort it.");
  }

  /**
   * Aborts the active operation: an answer, a tool, a compaction, a wait. Entries in the log stay. A run that waits for
   * a compaction by the user continues after it, unless `what` is `all`.
   */
  abort(what: "active" | "all" = "active"): void {
    const isCompacting = this.#compaction !== undefined;
    this.#compaction?.abort();
    if (what === "all" || !isCompacting) this.#run?.controller.abort();
  }

  /**
   * Compacts regardless of the thresholds; during a run, between two requests. Without anything to compact, succeeds
   * with no freed tokens. Throws the errors of `session.forceCompact`.
   */
  async forceCompact(instructions?: string): Promise<CompactResult> {
    const controller = new AbortController();
    const during = this.#run?.controller.signal;
    const wish = instructions ? { instructions } : {};
    return this.#turns.take(async () => {
      this.#compaction = controller;
      if (during?.aborted) controller.abort(during.reason);
      try {
        return await this.session.forceCompact({ ...this.#limits, ...wish, signal: controller.signal });
      } finally {
        this.#compaction = undefined;
      }
    });
  }

  /**
   * Reports `messages` as the new context of the model. The agent stores no list of messages: each request is built
   * from the tree.
   */
  replaceMessages(messages: readonly ContextMessage[]): void {
    this.#tell({ type: "messages_replaced", messages });
  }

  async #work(options: RunOptions, ...prompt: NewEntry[]): Promise<AssistantMessage | null> {
    const log = this.#newLog();
    const run: Run = { controller: new AbortController(), log, last: null };
    const { signal } = run.controller;
    this.#run = run;
    this.#queue.beginRun();
    try {
      this.#tell({ type: "agent_start" });
      await this.session.tell(agentStart, {});
      // Calls without a result from an earlier process get one. They are never run again automatically.
      await log.append(missingResults(this.session.context.messages));
      // Earlier queued input comes before this prompt, even if it is still being written.
      await this.#queue.settled();
      await this.#deliver(log, ...prompt);
      if (isAnswered(this.session.context.messages)) return null;
      return await this.#loop(options, run);
    } catch (error) {
      if (!isAbort(error, signal)) throw error;
      return null;
    } finally {
      if (this.#run === run) this.#run = undefined;
      const { messages } = this.session.context;
      try {
        this.#tell({ type: "agent_end", lastAssistantMessage: run.last, messages });
      } finally {
        await this.session.tell(agentEnd, { messages: [...messages] });
        if (!this.isRunning) await this.session.tell(agentSettled, {});
      }
    }
  }

  /** Repeats request, answer and tools until the model is done and no prompt is queued. */
  async #loop(
    { maxIterations = 50 }: RunOptions,
    { log, controller: { signal } }: Run,
  ): Promise<AssistantMessage> {
    for (let asked = 0, turnIndex = 0; ; turnIndex++) {
      await this.session.tell(turnStart, { turnIndex, timestamp: Date.now() });
      const { turn, toolResults } = await this.#turns.take(() => this.#takeTurn(log, signal));
      const { message: answer, calls } = turn;
      await this.session.tell(turnEnd, { turnIndex, message: answer, toolResults });
      if (signal.aborted || answer.stopReason === "aborted" || answer.stopReason === "error") return answer;
      if (calls.length > 0 && ++asked >= maxIterations) throw new MaxIterations(maxIterations);

      // Waits for prompts that are being written, so that the next request includes them.
      do await this.#queue.settled();
      while (this.#queue.isAdding);
      if (calls.length === 0 && this.queued.length === 0) {
        // In the same step as the check of the queue: a later prompt begins its own run.
        this.#run = undefined;
        return answer;
      }
      if ((await this.#deliver(log)).length > 0) asked = 0;
    }
  }

  /**
   * Sends one request, stores its answer, and runs its calls one after the other, because the user may have to approve
   * each.
   */
  async #takeTurn(
    log: TurnLog,
    signal: AbortSignal,
  ): Promise<{ turn: Turn; toolResults: ToolResultMessage[] }> {
    const { session, tools = [], approve, overflowRetryDelayMs } = this.#options;
    const request = await nextRequest(session, this.#model, { ...this.#prompt, signal, log });
    const turn = await recordAnswer(session, this.#model, request, {
      onEvent: (event) => this.#tell(event),
      ...(overflowRetryDelayMs === undefined ? {} : { overflowRetryDelayMs }),
    });
    const cwd = session.header?.cwd ?? process.cwd();
    const context = { tools, signal, cwd, ...(approve ? { approve } : {}) };
    const toolResults: ToolResultMessage[] = [];
    for (const call of turn.calls)
      toolResults.push(await turn.answer(call, (made) => runTool(made, context)));
    return { turn, toolResults };
  }

  async #deliver(log: TurnLog, ...prompt: NewEntry[]): Promise<Entry[]> {
    const appended = await log.append(this.#queue.toDeliver(prompt));
    this.#queue.delivered(appended);
    return appended;
  }

  /** System prompt and tools of the agent, besides those of the provider value. */
  get #prompt() {
    const { system, tools = [] } = this.#options;
    return { tools: tools.map(definitionOf), ...(system === undefined ? {} : { system }) };
  }

  get #limits(): Limits {
    return limitsOf(this.session, this.#model, this.#prompt);
  }

  #newLog(): TurnLog {
    return new TurnLog(this.session).telling((event) => this.#tell(event));
  }

  #tell(event: AgentEvent): void {
    if (event.type === "answer" && this.#run) this.#run.last = event.message;
    for (const listener of this.#listeners) listener(event);
  }
}

/** Makes an agent for an open session. */
export function createAgent(options: AgentOptions): Agent {
  return new Agent(options);
}

/**
 * Converts the session's events into agent events: offloads, images left out, and compactions (by a policy, an overflow
 * or a user) with their failures.
 */
function tellSessionEvents(events: EventBus, tell: (event: AgentEvent) => void): void {
  events.subscribe(EventType.PROGRESS_UPDATE, ({ message }) => tell({ type: "compact_start", message }));
  events.subscribe(EventType.STATE_CHANGED, (change) => {
    if (change.name === "session.offload") tell({ type: "offload_done", ...change.data });
    else if (change.name === "session.pictures") tell({ type: "pictures_left_out", ...change.data });
    else tell({ type: "compact_done", ...change.data });
  });
  events.subscribe(EventType.ERROR, ({ message }) => tell({ type: "compact_failed", message }));
}

/** The `customType` of queued input. */
export const QUEUED = "espalier.queued";

/** Input that a user gave during a run. */
export interface QueuedInput {
  /** Id of the future message. The input is delivered when an entry has this id. */
  entryId: string;
  text: string;
}

/**
 * Input that a user gave during a run. It is written to the log at once, and delivered once and in order. The queue has
 * no other storage, so input that a process did not deliver is found again when the session is opened.
 */
class InputQueue {
  readonly #session: Session;
  /** Input of this process that is not delivered, by the id of its message. A compaction can hide it from the window. */
  readonly #said = new Map<string, Entry>();
  /** Ids of the input of the current run: its prompt was given before them. */
  readonly #later = new Set<string>();
  #adding = 0;
  #added: Promise<unknown> = Promise.resolve();

  constructor(session: Session) {
    this.#session = session;
  }

  /** Input that waits on the leaf's path. */
  get waiting(): QueuedInput[] {
    const { id, log } = this.#session;
    const { entries } = this.#session.window;
    const isHidden = ({ id }: Entry) =>
      !entries.some((entry) => entry.id === id) && (!log.view || this.#session.isOnPath(id));
    return [...[...this.#said.values()].filter(isHidden), ...entries]
      .flatMap((entry) => queuedInput(entry, id) ?? [])
      .filter(({ entryId }) => !this.#isDelivered(entryId));
  }

  /** True while input is being written. */
  get isAdding(): boolean {
    return this.#adding > 0;
  }

  /** Input added from now on is later than the prompt of the run that begins. */
  beginRun(): void {
    this.#later.clear();
  }

  /** Adds input. Resolves when it is on disk. */
  async add(text: string): Promise<void> {
    const data = { sessionId: this.#session.id, entryId: createId(), text };
    this.#later.add(data.entryId);
    const adding = this.#session.append(custom.of({ customType: QUEUED, data }), { durability: "fsync" });
    this.#adding++;
    const ended = () => this.#adding--;
    this.#added = adding.then(ended, ended);
    for (const entry of await adding) this.#said.set(data.entryId, entry);
  }

  /**
   * Waits for input that is being written. If input waits in a remote log, loads the whole log, because only the whole
   * log shows input that was delivered on another branch.
   */
  async settled(): Promise<void> {
    await this.#added;
    if (!this.#session.log.view && this.waiting.length > 0) await this.#session.load();
  }

  /** Returns a prompt and waiting input as messages to append. The ids of input ensure that each is delivered once. */
  toDeliver(prompt: readonly NewEntry[]): NewEntry[] {
    const { waiting } = this;
    const later = waiting.findIndex(({ entryId }) => this.#later.has(entryId));
    const drafts: NewEntry[] = waiting.map(({ entryId, text }) =>
      message.of({ id: entryId, message: { role: "user", content: text, timestamp: Date.now() } }),
    );
    return drafts.toSpliced(later < 0 ? drafts.length : later, 0, ...prompt);
  }

  /** Removes the input that these entries deliver. */
  delivered(entries: readonly Entry[]): void {
    for (const { id } of entries) this.#said.delete(id);
  }

  #isDelivered(entryId: string): boolean {
    const session = this.#session;
    return session.log.view
      ? session.tree.has(entryId)
      : session.window.entries.some(({ id }) => id === entryId);
  }
}

/**
 * Returns the queued input of an entry; undefined for other entries, and for input of the session from which this one
 * was forked.
 */
function queuedInput(entry: Entry, session: string): QueuedInput | undefined {
  if (!isCustom(entry, QUEUED)) return undefined;
  const { sessionId, entryId, text } = (entry.data ?? {}) as Record<string, unknown>;
  if (sessionId !== session || typeof entryId !== "string" || typeof text !== "string") return undefined;
  return { entryId, text };
}
