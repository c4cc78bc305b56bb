import { trustedTokens } from "@espalier/compaction";
import { type CompactResult, type EventBus, EventType } from "@espalier/compaction/policies";
import {
  agentEnd,
  agentSettled,
  agentStart,
  type CompactionRequest,
  INTERRUPTED,
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
  type Entry,
  isBlank,
  message,
  modelChange,
  type NewEntry,
  type ToolCallBlock,
  type ToolResultMessage,
} from "@espalier/session-tree";
import { InputQueue, type QueuedInput } from "./input-queue.ts";
import { definitionOf, type RunToolsOptions, runTool, type Tool } from "./tool.ts";

/** The summarizer of an agent. Absent: the session's own. */
export type SummaryWriter = Pick<CompactionRequest, "summarizer" | "fallback">;

/** Options of an {@link Agent}. It does not close the session, which its caller owns. */
export interface AgentOptions {
  /** Everything is kept here; extensions, policies and settings are those it was opened with. */
  session: Session;
  /** The model that answers, until `setModel`. */
  model: Provider;
  /** Tools that the model can call, besides those of the provider value, which the agent cannot run. Default: none. */
  tools?: readonly Tool[];
  /** The system prompt, after that of the provider value; a policy may add to it. Default: none. */
  system?: string;
  /** Asked before a tool that writes or runs something; default: such calls are refused. */
  approve?: RunToolsOptions["approve"];
  /** Milliseconds before a request that was too long is sent again. Default 100. */
  overflowRetryDelayMs?: number;
}

/** Limits of one run. */
export interface RunOptions {
  /** Most rounds of tool calls before an answer. Default 50. */
  maxIterations?: number;
}

/** Events of a run, in order. */
export type AgentEvent =
  | { type: "agent_start" }
  | TurnEvent
  /** A prompt during a run waits for its turn, with `waiting` texts in all. */
  | { type: "queued"; text: string; waiting: number }
  /** Results were moved to files, to be read there. */
  | { type: "offload_done"; offloadedCount: number; freedTokens: number }
  /** A provider would have refused the request: pictures of so many messages are left out of it and of what follows. */
  | { type: "pictures_left_out"; messages: number; reasons: readonly string[] }
  /** `message` says how full the context is: `Context at 85% - compacting`. */
  | { type: "compact_start"; message: string }
  /** Tokens, and the number of messages that the summary replaces. */
  | { type: "compact_done"; tokensBefore: number; tokensAfter: number; messagesRemoved: number }
  /** A compaction replaced the list that the model reads: a listener that shows a copy has to rebuild it. */
  | { type: "messages_replaced"; messages: readonly ContextMessage[] }
  /** The run is over; null where it was aborted before there was an answer. `messages` are the context it left. */
  | { type: "agent_end"; lastAssistantMessage: AssistantMessage | null; messages: readonly ContextMessage[] };

/** Receives an agent's events, one after the other, while the run waits for it to return. */
export type AgentListener = (event: AgentEvent) => void;

/** The model asked for tools more often than allowed; everything it got is stored. */
export class MaxIterations extends EspalierError {
  override readonly name = "MaxIterations";
  readonly iterations: number;
  constructor(iterations: number) {
    super(
      "max-iterations",
      `The model asked for tools ${iterations} times without an answer; go on with another prompt, or allow more iterations.`,
    );
    this.iterations = iterations;
  }
}

interface Run {
  readonly controller: AbortController;
  /** The entries of the run. */
  readonly log: TurnLog;
  /** The newest answer of this run. */
  last: AssistantMessage | null;
}

/** A reference agent: a session, a model and tools, and one loop over the turns of the engine. */
export class Agent {
  /** The session that the agent was made with. */
  readonly session: Session;
  readonly #options: AgentOptions;
  readonly #queue: InputQueue;
  readonly #listeners = new Set<AgentListener>();
  /** Requests with their tools, and compactions that were asked for, take turns. */
  readonly #turns = new TurnTaking();
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

  /** The model that answers the next request. */
  get model(): Provider {
    return this.#model;
  }

  /** True during a run: prompts are queued then. */
  get isRunning(): boolean {
    return this.#run !== undefined;
  }

  /** Prompts that wait for their turn, in order. */
  get queued(): QueuedInput[] {
    return this.#queue.waiting;
  }

  /** Size of the next request without what is said next: what a provider counted, and an estimate of the rest. */
  get contextTokens(): number {
    return trustedTokens(this.session.context, this.#limits.overheadTokens);
  }

  /** Tokens that the model reads: what it says of itself, or less, where its provider said so in this session. */
  get contextWindow(): number {
    return windowOf(this.session, this.#model);
  }

  /** The summarizer, for navigation and forks of the session. */
  get summaries(): SummaryWriter {
    return writerOf(this.session, this.#model);
  }

  /** State of the conversation, and calls without a result: report it after a restart. */
  get state(): RunState & { openCalls: ToolCallBlock[] } {
    return { ...runStateOf(this.session), openCalls: openCalls(this.session.context.messages) };
  }

  /** Calls `listener` with every event from now on; returns the function that ends it. */
  on(listener: AgentListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Answers come from `model` from the next request on; the session remembers it. */
  async setModel(model: Provider): Promise<void> {
    this.#model = model;
    const { provider, modelId } = model;
    const log = this.#run?.log ?? new TurnLog(this.session);
    await this.#telling(log).append([modelChange.of({ provider, modelId })]);
  }

  /**
   * Sends a prompt to the model and runs until it has answered. During a run, the text is queued and
   * delivered in order. Null for a text that was queued, and for a run that was aborted before there was an answer.
   *
   * @throws EspalierError `bad-input`, `overflow`, `moved`; MaxIterations; what `session.prepareRequest` throws
   */
  async run(userMessage: string, options: RunOptions = {}): Promise<AssistantMessage | null> {
    if (isBlank(userMessage))
      throw new EspalierError("bad-input", "The prompt is blank, and no provider takes one; say something.");
    const said = { role: "user" as const, content: userMessage, timestamp: Date.now() };
    if (!this.isRunning) return this.#work(options, message.of({ message: said }));
    await this.#queue.add(userMessage);
    this.#tell({ type: "queued", text: userMessage, waiting: this.queued.length });
    return null;
  }

  /** Continues the conversation without a new prompt. Null when it ends in an answer. */
  async continue(options: RunOptions = {}): Promise<AssistantMessage | null> {
    if (!this.isRunning) return this.#work(options);
    throw new EspalierError("busy", "A run is going on; wait for it or abort it.");
  }

  /**
   * Ends what is active: an answer, a tool, a compaction, a wait. What is in the log stays. A run that waits for a
   * compaction which was asked for goes on after it, unless `all` is to end.
   */
  abort(what: "active" | "all" = "active"): void {
    const isCompacting = this.#compaction !== undefined;
    this.#compaction?.abort();
    if (what === "all" || !isCompacting) this.#run?.controller.abort();
  }

  /**
   * Compacts regardless of the thresholds, between two requests during a run. Nothing to compact is a success
   * that freed nothing. Throws as `session.forceCompact`.
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

  /** Announces `messages` as the context that the model reads now. The agent keeps no list: each request is built from the tree. */
  replaceMessages(messages: readonly ContextMessage[]): void {
    this.#tell({ type: "messages_replaced", messages });
  }

  /** A run from its beginning to its end, however it ends. */
  async #work(options: RunOptions, ...prompt: NewEntry[]): Promise<AssistantMessage | null> {
    const log = this.#telling(new TurnLog(this.session));
    const run: Run = { controller: new AbortController(), log, last: null };
    const { signal } = run.controller;
    this.#run = run;
    this.#tell({ type: "agent_start" });
    await this.session.tell(agentStart, {});
    try {
      // Calls that an earlier process left without a result get one: they are never run again by themselves.
      await log.append(missingResults(openCalls(this.session.context.messages), INTERRUPTED));
      // Earlier input comes before this prompt, also while it is being written.
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
      this.#tell({ type: "agent_end", lastAssistantMessage: run.last, messages });
      await this.session.tell(agentEnd, { messages: [...messages] });
      if (!this.isRunning) await this.session.tell(agentSettled, {});
    }
  }

  /** Request, answer, tools, and again, until the model is done and no prompt is queued. */
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

      // Until nothing is on its way: a request for what is said just now would go out without it.
      do await this.#queue.settled();
      while (this.#queue.isAdding);
      if (this.#queue.isEmpty && calls.length === 0) {
        // In one step with the look at the queue: what is said from now on is a run of its own.
        this.#run = undefined;
        return answer;
      }
      if ((await this.#deliver(log)).length > 0) asked = 0;
    }
  }

  /** One request, its answer, and the results of its calls, one after the other: a user may be asked before each. */
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

  /** Appends waiting input as messages, then the prompt. */
  async #deliver(log: TurnLog, ...prompt: NewEntry[]): Promise<Entry[]> {
    const appended = await log.append([...this.#queue.toDeliver(), ...prompt]);
    this.#queue.delivered(appended);
    return appended;
  }

  /** System prompt and tools, besides those of the provider value. */
  get #prompt() {
    const { system, tools = [] } = this.#options;
    return { tools: tools.map(definitionOf), ...(system === undefined ? {} : { system }) };
  }

  get #limits(): Limits {
    return limitsOf(this.session, this.#model, this.#prompt);
  }

  #telling(log: TurnLog): TurnLog {
    return log.telling((event) => this.#tell(event));
  }

  #tell(event: AgentEvent): void {
    if (event.type === "answer" && this.#run) this.#run.last = event.message;
    for (const listener of this.#listeners) listener(event);
  }
}

/** An agent on an open session. */
export function createAgent(options: AgentOptions): Agent {
  return new Agent(options);
}

/** Runs work one by one: each piece begins when the one before has ended or failed. */
class TurnTaking {
  #last: Promise<unknown> = Promise.resolve();

  take<Result>(work: () => Promise<Result>): Promise<Result> {
    const turn = this.#last.then(work);
    // The caller receives a failure; the next piece of work only waits for its end.
    this.#last = turn.catch(() => undefined);
    return turn;
  }
}

/** Reports offloads, pictures left out and compactions as events of the agent, for every cause: a policy, an overflow, a user. */
function tellSessionEvents(events: EventBus, tell: (event: AgentEvent) => void): void {
  events.subscribe(EventType.PROGRESS_UPDATE, ({ message }) => tell({ type: "compact_start", message }));
  events.subscribe(EventType.STATE_CHANGED, (change) => {
    if (change.name === "session.offload") tell({ type: "offload_done", ...change.data });
    else if (change.name === "session.pictures") tell({ type: "pictures_left_out", ...change.data });
    else tell({ type: "compact_done", ...change.data });
  });
  events.subscribe(EventType.ERROR, ({ message }) => tell({ type: "compact_failed", message }));
}
