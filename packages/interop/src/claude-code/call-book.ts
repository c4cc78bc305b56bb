import { contentBlocks, type Entry, isRecord, type ToolCallBlock } from "@espalier/session-tree";
import { HashRuns } from "../scratch/hash-runs.ts";
import type { ScratchArea } from "../scratch/scratch-area.ts";
import type { Line } from "./hearing.ts";

/** How many of the newest calls are remembered by name. A result mostly comes soon after its call. */
const REMEMBERED = 1_024;

/** The calls of a session: what their tools are named, and which row made them. Sub-agents are found by it. */
export class CallBook {
  readonly #hash: ScratchArea["hash"];
  /** Names of tools, by call. */
  readonly #tools = new Map<string, string>();
  readonly #callers: HashRuns;
  readonly #agents: HashRuns;
  readonly #prompts: HashRuns;

  constructor(area: ScratchArea) {
    this.#hash = area.hash;
    this.#callers = new HashRuns(area);
    this.#agents = new HashRuns(area);
    this.#prompts = new HashRuns(area);
  }

  /** Takes down the calls of the answer that a row became; returns how many there are. */
  takeAnswer(answer: Entry, row: number): number {
    const { message } = answer as Entry & { message?: { content?: unknown } };
    const calls = contentBlocks(message ?? {}).filter(
      (block): block is ToolCallBlock => block.type === "toolCall",
    );
    for (const { id, name, arguments: input } of calls) {
      this.#remember(id, name);
      this.#take(this.#callers, id, row);
      // The one who hands work to a sub-agent says what is to be done; old files link the two by nothing else.
      if (isRecord(input) && typeof input["prompt"] === "string")
        this.#take(this.#prompts, input["prompt"], row);
    }
    return calls.length;
  }

  /** Takes down which sub-agent a result came from. */
  takeResult(line: Line, toolCallId: string): void {
    const result = line["toolUseResult"];
    if (!isRecord(result) || typeof result["agentId"] !== "string") return;
    const row = this.rowOf(toolCallId);
    if (row >= 0) this.#take(this.#agents, result["agentId"], row);
  }

  /** The name of a call's tool, for calls of late. */
  recentTool(callId: string): string | undefined {
    return this.#tools.get(callId);
  }

  /** The row that made a call; -1 when none did. */
  rowOf(callId: unknown): number {
    return this.#find(this.#callers, callId);
  }

  /** The row that called a sub-agent, by whatever is known of it; -1 when none did. */
  callerOf(run: { toolUseId?: unknown; agentId?: unknown; prompt?: unknown }): number {
    const byCall = this.rowOf(run.toolUseId);
    if (byCall >= 0) return byCall;
    const byAgent = this.#find(this.#agents, run.agentId);
    return byAgent >= 0 ? byAgent : this.#find(this.#prompts, run.prompt);
  }

  #remember(callId: string, name: string): void {
    this.#tools.set(callId, name);
    if (this.#tools.size <= REMEMBERED) return;
    const [oldest] = this.#tools.keys();
    this.#tools.delete(oldest!);
  }

  #take(book: HashRuns, text: string, row: number): void {
    this.#hash.hashText(text);
    book.add(this.#hash, row);
  }

  #find(book: HashRuns, text: unknown): number {
    if (typeof text !== "string") return -1;
    this.#hash.hashText(text);
    return book.find(this.#hash);
  }
}
