import { contentBlocks, type Entry, type ToolCallBlock } from "@espalier/session-tree";
import { isRecord } from "../formats/json-record.ts";
import type { Line } from "./hearing.ts";

/** The calls of a session: what their tools are named, and which entry made them. Sub-agents are found by it. */
export class CallBook {
  readonly #tools = new Map<string, string>();
  readonly #entries = new Map<string, string>();
  readonly #agents = new Map<string, string>();
  readonly #prompts = new Map<string, string>();

  /** Takes down the calls of an answer; returns how many there are. */
  takeAnswer(answer: Entry): number {
    const { message } = answer as Entry & { message?: { content?: unknown } };
    const calls = contentBlocks(message ?? {}).filter(
      (block): block is ToolCallBlock => block.type === "toolCall",
    );
    for (const { id, name, arguments: input } of calls) {
      this.#tools.set(id, name);
      this.#entries.set(id, answer.id);
      // The one who hands work to a sub-agent says what is to be done; old files link the two by nothing else.
      if (isRecord(input) && typeof input["prompt"] === "string")
        this.#prompts.set(input["prompt"], answer.id);
    }
    return calls.length;
  }

  /** Takes down which sub-agent a result came from. */
  takeResult(line: Line, toolCallId: string): void {
    const result = line["toolUseResult"];
    const call = this.#entries.get(toolCallId);
    if (call && isRecord(result) && typeof result["agentId"] === "string")
      this.#agents.set(result["agentId"], call);
  }

  toolName(callId: string): string | undefined {
    return this.#tools.get(callId);
  }

  /** The entry that called a sub-agent, by whatever is known of it. */
  callerOf(run: { toolUseId?: unknown; agentId?: unknown; prompt?: unknown }): string | undefined {
    return (
      this.#entries.get(String(run.toolUseId)) ??
      this.#agents.get(String(run.agentId)) ??
      this.#prompts.get(String(run.prompt))
    );
  }
}
