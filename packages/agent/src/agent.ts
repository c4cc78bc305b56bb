import { trustedTokens } from "@espalier/compaction";
import { type CompactResult, type EventBus, EventType } from "@espalier/compaction/policies";
import {
  agentEnd,
  agentSettled,
  agentStart,
  type RunState,
  runStateOf,
  type Session,
  turnEnd,
  turnStart,
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
} from "@espalier/session-tree";
import { MaxIterations } from "./agent-error.ts";
import {
  type AgentEvent,
  type AgentListener,
  type AgentOptions,
  type Limits,
  limitsOf,
  type RunOptions,
  type SummaryWriter,
  windowOf,
  writerOf,
} from "./limits.ts";
import type { Model } from "./model.ts";
import { InputQueue, isAnswered, openCalls, type QueuedInput, RunLog } from "./run-log.ts";
import { INTERRUPTED, isAbort, refusedResults } from "./tool.ts";
import { type TurnStage, takeTurn } from "./turn.ts";

interface Run {
  readonly controller: AbortController;
  /** The newest answer of this run. */
  last: AssistantMessage | null;
}

/** A reference agent: a session, a model and tools; what they do together is one function, `takeTurn`. */
export class Agent {
  /** The session that the agent was made with. */
  readonly session: Session;
  readonly #options: AgentOptions;
  readonly #queue: InputQueue;
  readonly #log: RunLog;
  readonly #listeners = new Set<AgentListener>();
  /** Requests with their tools, and compactions that were asked for, take turns. */
  readonly #turns = new TurnTaking();
  readonly #stage: TurnStage;
  #model: Model;
  #run: Run | undefined;
  #compaction: AbortController | undefined;

  constructor(options: AgentOptions) {
    this.session = options.session;
    this.#model = options.model;
    this.#options = options;
    this.#queue = new InputQueue(options.session);
    this.#log = new RunLog(options.session, (entry) => this.#tell({ type: "entry", entry }));
    this.#stage = {
      options,
      log: this.#log,
      tell: (event) => this.#tell(event),
      model: () => this.#model,
      limits: () => this.#limits,
      contextTokens: () => this.contextTokens,
    };
    tellSessionEvents(options.session.events, (event) => {
      this.#tell(event);
      if (event.type === "compact_done") this.replaceMessages(this.session.context.messages);
    });
  }

  /** The model that answers the next request. */
  get model(): Model {
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

  /** Tells `listener` of everything from now on; returns the function that ends it. */
  on(listener: AgentListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Answers come from `model` from the next request on; the session remembers it. */
  async setModel(model: Model): Promise<void> {
    this.#model = model;
    const { provider, modelId } = model;
    await this.#log.append([modelChange.of({ provider, modelId })]);
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
   * Compacts whatever the thresholds say, between two requests when a run is going on. Nothing to compact is a success
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

  /** Tells that `messages` is what the model reads now. The agent keeps no list: each request is built from the tree. */
  replaceMessages(messages: readonly ContextMessage[]): void {
    this.#tell({ type: "messages_replaced", messages });
  }

  /** A run from its beginning to its end, however it ends. */
  async #work(options: RunOptions, ...prompt: NewEntry[]): Promise<AssistantMessage | null> {
    const run: Run = { controller: new AbortController(), last: null };
    const { signal } = run.controller;
    this.#run = run;
    this.#tell({ type: "agent_start" });
    await this.session.tell(agentStart, {});
    try {
      this.#log.begin();
      // Calls that an earlier process left without a result get one: they are never run again by themselves.
      await this.#log.append(refusedResults(openCalls(this.session.context.messages), INTERRUPTED));
      // Earlier input comes before this prompt, also while it is being written.
      await this.#queue.settled();
      await this.#deliver(...prompt);
      if (isAnswered(this.session.context.messages)) return null;
      return await this.#loop(options, signal);
    } catch (error) {
      if (!isAbort(error, signal)) throw error;
      return null;
    } finally {
      if (this.#run === run) this.#run = undefined;
      if (!this.isRunning) this.#log.end();
      const { messages } = this.session.context;
      this.#tell({ type: "agent_end", lastAssistantMessage: run.last, messages });
      await this.session.tell(agentEnd, { messages: [...messages] });
      if (!this.isRunning) await this.session.tell(agentSettled, {});
    }
  }

  /** Request, answer, tools, and again, until the model is done and no prompt is queued. */
  async #loop({ maxIterations = 50 }: RunOptions, signal: AbortSignal): Promise<AssistantMessage> {
    for (let asked = 0, overflows = 0, turnIndex = 0; ; turnIndex++) {
      await this.session.tell(turnStart, { turnIndex, timestamp: Date.now() });
      const turn = await this.#turns.take(() => takeTurn(this.#stage, overflows, signal));
      const { answer, next } = turn;
      await this.session.tell(turnEnd, { turnIndex, message: answer, toolResults: turn.results });
      overflows = next === "overflow" ? overflows + 1 : 0;
      if (next === "overflow") continue;
      if (signal.aborted || answer.stopReason === "aborted" || answer.stopReason === "error") return answer;
      if (next === "tools" && ++asked >= maxIterations) throw new MaxIterations(maxIterations);

      // Until nothing is on its way: a request for what is said just now would go out without it.
      do await this.#queue.settled();
      while (this.#queue.isAdding);
      if (this.#queue.isEmpty && next !== "tools") {
        // In one step with the look at the queue: what is said from now on is a run of its own.
        this.#run = undefined;
        return answer;
      }
      if ((await this.#deliver()).length > 0) asked = 0;
    }
  }

  /** Appends waiting input as messages, then the prompt. */
  async #deliver(...prompt: NewEntry[]): Promise<Entry[]> {
    const appended = await this.#log.append([...this.#queue.toDeliver(), ...prompt]);
    this.#queue.delivered(appended);
    return appended;
  }

  get #limits(): Limits {
    return limitsOf(this.#options, this.#model);
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

/** One after the other: each piece of work begins when the one before has ended, however it ended. */
class TurnTaking {
  #last: Promise<unknown> = Promise.resolve();

  take<Result>(work: () => Promise<Result>): Promise<Result> {
    const turn = this.#last.then(work);
    // The caller receives a failure; the next piece of work only waits for its end.
    this.#last = turn.catch(() => undefined);
    return turn;
  }
}

/** Reports offloads, pictures left out and compactions as events of the agent, by whatever cause: a policy, an overflow, a user. */
function tellSessionEvents(events: EventBus, tell: (event: AgentEvent) => void): void {
  events.subscribe(EventType.PROGRESS_UPDATE, ({ message }) => tell({ type: "compact_start", message }));
  events.subscribe(EventType.STATE_CHANGED, (change) => {
    if (change.name === "session.offload") tell({ type: "offload_done", ...change.data });
    else if (change.name === "session.pictures") tell({ type: "pictures_left_out", ...change.data });
    else tell({ type: "compact_done", ...change.data });
  });
  events.subscribe(EventType.ERROR, ({ message }) => tell({ type: "compact_failed", message }));
}
