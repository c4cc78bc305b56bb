import { CompactionError, DEFAULT_COMPACTION_SETTINGS, trustedTokens } from "@espalier/compaction";
import type { CompactionResult, Session } from "@espalier/engine";
import {
  type AssistantMessage,
  buildRequest,
  type ContextMessage,
  contextEdit,
  custom,
  type Entry,
  estimateTotal,
  message,
  type NewEntry,
} from "@espalier/session-tree";
import { afterAnswer } from "./after-answer.ts";
import { AgentError, MaxIterations } from "./agent-error.ts";
import type { AgentEvent, AgentListener } from "./agent-event.ts";
import { InputQueue } from "./input-queue.ts";
import type { Model } from "./model.ts";
import { callsOf, interruptedResults, type RunToolsOptions, runTool } from "./run-tools.ts";
import type { Tool } from "./tool.ts";
import { SENT, type TurnState, turnState } from "./turn-state.ts";

export interface AgentOptions {
  session: Session;
  model: Model;
  tools?: readonly Tool[];
  system?: string;
  /** Asked before a tool that writes or runs something; default: such calls are refused. */
  approve?: RunToolsOptions["approve"];
  /** How long to wait before a request that was too long is sent again, in milliseconds. Default 100. */
  overflowRetryDelayMs?: number;
}

export interface RunOptions {
  /** How often the model may ask for tools in one run. Default 50. */
  maxIterations?: number;
}

/** Tokens of a tool's definition, roughly: what its JSON takes. */
const CHARS_PER_TOKEN = 4;

/** A reference agent: a session, a model, tools, and one turn that can be read top to bottom. */
export class Agent {
  readonly session: Session;
  model: Model;
  readonly #options: AgentOptions;
  readonly #queue: InputQueue;
  readonly #listeners = new Set<AgentListener>();
  #abort: AbortController | undefined;

  constructor(options: AgentOptions) {
    this.session = options.session;
    this.model = options.model;
    this.#options = options;
    this.#queue = new InputQueue(options.session);
  }

  /** Where the conversation stands: what a restart has to say before anything else. */
  get state(): TurnState {
    return turnState(this.session.core.window.entries);
  }

  get isRunning(): boolean {
    return this.#abort !== undefined;
  }

  /** Input that waits for its turn. */
  get waiting(): number {
    return this.#queue.length;
  }

  /** Tells `listener` of everything from now on; returns the function that ends it. */
  on(listener: AgentListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Says something to the model and goes on until it has answered. While a run is going on, the text is kept and
   * delivered in order.
   * @throws AgentError `overflow`; MaxIterations; what the session throws
   */
  async run(userMessage: string, options: RunOptions = {}): Promise<AssistantMessage | null> {
    if (this.isRunning) {
      await this.#queue.add(userMessage);
      this.#tell({ type: "queued", text: userMessage, waiting: this.#queue.length });
      return null;
    }
    return this.#work(async (signal) => {
      await this.#append([
        ...this.#closing(),
        message.of({ message: { role: "user", content: userMessage, timestamp: Date.now() } }),
      ]);
      return this.#loop(options, signal);
    });
  }

  /** Goes on from where the conversation stands, without saying anything. */
  async continue(options: RunOptions = {}): Promise<AssistantMessage | null> {
    if (this.isRunning) throw new AgentError("busy", "A run is going on; wait for it or abort it.");
    return this.#work(async (signal) => {
      await this.#append(this.#closing());
      return this.#loop(options, signal);
    });
  }

  /** Ends whatever is going on: an answer, a tool, a compaction. What is in the log stays. */
  abort(): void {
    this.#abort?.abort();
  }

  /** Compacts whatever the thresholds say; undefined when there is nothing to compact. */
  async forceCompact(instructions?: string): Promise<CompactionResult | undefined> {
    return this.#compact("manual", this.#abort?.signal ?? new AbortController().signal, instructions);
  }

  async #work(
    run: (signal: AbortSignal) => Promise<AssistantMessage | null>,
  ): Promise<AssistantMessage | null> {
    this.#abort = new AbortController();
    this.#tell({ type: "agent_start" });
    let last: AssistantMessage | null = null;
    try {
      last = await run(this.#abort.signal);
      return last;
    } finally {
      this.#abort = undefined;
      this.#tell({ type: "agent_end", lastAssistantMessage: last, messages: this.session.context.messages });
    }
  }

  /** One run: request, answer, tools, and again, until the model is done and nobody has said anything more. */
  async #loop({ maxIterations = 50 }: RunOptions, signal: AbortSignal): Promise<AssistantMessage> {
    let overflowed = false;
    for (let iteration = 0; iteration < maxIterations; iteration++) {
      await this.#append(this.#queue.take());
      await this.#compactWhenDue(signal);
      const answer = await this.#ask(signal);
      const appended = await this.#append([message.of({ message: answer })]);
      this.#tell({ type: "answer", message: answer });

      const next = afterAnswer(
        answer,
        this.model,
        trustedTokens(this.session.context) + this.#overheadTokens(),
        this.#settings(),
      );
      if (next === "overflow") {
        if (overflowed) throw this.#overflow(answer);
        overflowed = true;
        await this.#recoverFromOverflow(appended[0]!, signal);
        continue;
      }
      if (signal.aborted || answer.stopReason === "aborted" || answer.stopReason === "error") return answer;
      overflowed = false;

      const calls = callsOf(answer);
      for (const call of calls) {
        this.#tell({ type: "tool_start", call });
        const result = await runTool(call, this.#toolOptions(signal));
        // Durable before it is shown: what a tool did cannot be had again.
        await this.#append([message.of({ message: result })]);
        this.#tell({ type: "tool_end", call, result });
      }
      if (calls.length > 0) {
        if (signal.aborted) return answer;
        continue;
      }
      if (next === "threshold") await this.#compactWhenDue(signal);
      if (this.#queue.length === 0) return answer;
    }
    throw new MaxIterations(maxIterations);
  }

  /** Sends the request that the tree gives at the leaf, and waits for the answer. */
  async #ask(signal: AbortSignal): Promise<AssistantMessage> {
    const { session, model } = this;
    const context = await session.contextToSend(signal);
    const request = buildRequest(context, {
      format: model.format,
      model: { provider: model.provider, modelId: model.modelId },
      ...(this.#options.system ? { system: this.#options.system } : {}),
      tools: (this.#options.tools ?? []).map(({ name, description, parameters }) => ({
        name,
        ...(description ? { description } : {}),
        ...(parameters ? { parameters } : {}),
      })),
    });
    // The mark goes out before the request does: after a crash one knows that an answer may have been billed.
    await this.#append(
      [
        custom.of({
          customType: SENT,
          data: { leafId: session.leafId, model: `${model.provider}/${model.modelId}` },
        }),
      ],
      "fsync",
    );
    this.#tell({ type: "request", messages: context.messages.length, tokens: context.tokens });
    for await (const event of model.stream(request, { signal })) {
      if (event.type === "answer") return event.message;
      this.#tell(event);
    }
    throw new Error(`The model ${model.modelId} ended without an answer.`);
  }

  /** The failed answer is left out (it stays in the file), the path is compacted, and after a moment one goes on. */
  async #recoverFromOverflow(failed: Entry, signal: AbortSignal): Promise<void> {
    if (!this.#settings().autoCompact) {
      throw new CompactionError(
        "auto-off",
        "The request was too long for the model, and nothing may compact by itself; compact by hand or take a model with a larger window.",
      );
    }
    await this.#append([contextEdit.of({ targetId: failed.id, replacement: null })]);
    await this.#compact("overflow", signal);
    const delay = this.#options.overflowRetryDelayMs ?? 100;
    this.#tell({ type: "retry", afterMs: delay });
    await new Promise((resolve) => setTimeout(resolve, delay));
  }

  async #compactWhenDue(signal: AbortSignal): Promise<void> {
    const result = await this.session.compactWhenDue({
      signal,
      settings: this.#settings(),
      overheadTokens: this.#overheadTokens(),
    });
    if (result?.eligible) this.#tell({ type: "compact_done", result });
  }

  async #compact(
    reason: "manual" | "overflow",
    signal: AbortSignal,
    instructions?: string,
  ): Promise<CompactionResult | undefined> {
    this.#tell({ type: "compact_start", reason });
    try {
      const result = await this.session.compact({
        reason,
        signal,
        settings: this.#settings(),
        overheadTokens: this.#overheadTokens(),
        ...(instructions ? { instructions } : {}),
      });
      if (!result.eligible) return undefined;
      this.#tell({ type: "compact_done", result });
      return result;
    } catch (error) {
      this.#tell({ type: "compact_failed", message: error instanceof Error ? error.message : String(error) });
      throw error;
    }
  }

  /** Results for calls that an earlier process left without one: they are never run again by themselves. */
  #closing(): NewEntry[] {
    return interruptedResults(this.state.openCalls);
  }

  async #append(entries: readonly NewEntry[], durability?: "fsync"): Promise<Entry[]> {
    const appended = await this.session.append(entries, durability ? { durability } : {});
    for (const entry of appended) this.#tell({ type: "entry", entry });
    return appended;
  }

  #toolOptions(signal: AbortSignal): RunToolsOptions {
    const { tools = [], approve, session } = this.#options;
    return { tools, signal, cwd: session.header?.cwd ?? process.cwd(), ...(approve ? { approve } : {}) };
  }

  #settings() {
    return {
      ...DEFAULT_COMPACTION_SETTINGS,
      ...this.session.options.compaction,
      contextWindow: this.model.contextWindow,
    };
  }

  /** System prompt and tools, which are sent besides the context. */
  #overheadTokens(): number {
    const { system = "", tools = [] } = this.#options;
    return Math.ceil(
      (system.length +
        JSON.stringify(tools.map(({ name, description, parameters }) => ({ name, description, parameters })))
          .length) /
        CHARS_PER_TOKEN,
    );
  }

  #overflow(answer: AssistantMessage): AgentError {
    const breakdown = {
      systemAndTools: this.#overheadTokens(),
      context: estimateTotal(this.session.context.messages as ContextMessage[]),
      window: this.model.contextWindow,
    };
    const message = `The request is too long for ${this.model.modelId} also after a compaction (${answer.errorMessage ?? "no words"}): system prompt and tools take ${breakdown.systemAndTools} tokens, the context ${breakdown.context}, the window has ${breakdown.window}. Use a model with a larger window.`;
    return new AgentError("overflow", message, { breakdown });
  }

  #tell(event: AgentEvent): void {
    for (const listener of this.#listeners) listener(event);
  }
}

/** An agent on an open session. */
export function createAgent(options: AgentOptions): Agent {
  return new Agent(options);
}
