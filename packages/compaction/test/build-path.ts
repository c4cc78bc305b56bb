import {
  type CompactionPreparation,
  type CompactionSettings,
  type PrepareOptions,
  prepareCompaction,
} from "@espalier/compaction";
import type { ContentBlock, Entry } from "@espalier/session-tree";

/** A text of so many tokens (characters / 4). */
export const words = (tokens: number, letter = "x"): string => letter.repeat(tokens * 4);

export const text = (value: string): ContentBlock => ({ type: "text", text: value });
export const image = (): ContentBlock => ({ type: "image", data: "iVBORw0KGgo=", mimeType: "image/png" });

/** A path under construction: every method adds an entry under the one before and returns its id. */
export class PathBuilder {
  readonly entries: Entry[] = [];
  #calls = 0;

  add(fields: { type: string; [field: string]: unknown }, id = `e${this.entries.length + 1}`): string {
    const parentId = this.entries.at(-1)?.id ?? null;
    const timestamp = new Date(Date.UTC(2026, 0, 1) + this.entries.length * 1_000).toISOString();
    this.entries.push({ id, parentId, timestamp, ...fields } as Entry);
    return id;
  }

  say(message: Record<string, unknown>): string {
    return this.add({ type: "message", message: { ...message, timestamp: this.entries.length } });
  }

  user(content: string | ContentBlock[]): string {
    return this.say({ role: "user", content });
  }

  answer(said: string, more: Record<string, unknown> = {}): string {
    return this.say({ role: "assistant", content: [text(said)], ...MODEL, stopReason: "stop", ...more });
  }

  /** An answer that calls tools; returns the ids of the calls. */
  call(calls: { name: string; arguments: Record<string, unknown> }[]): string[] {
    const content = calls.map((call) => ({ type: "toolCall", id: `call-${++this.#calls}`, ...call }));
    this.say({ role: "assistant", content, ...MODEL, stopReason: "toolUse" });
    return content.map(({ id }) => id);
  }

  result(toolCallId: string, content: string | ContentBlock[], isError = false): string {
    const blocks = typeof content === "string" ? [text(content)] : content;
    return this.say({ role: "toolResult", toolCallId, toolName: "read", content: blocks, isError });
  }

  /** One call and its result. */
  tool(name: string, args: Record<string, unknown>, output: string, isError = false): void {
    const [id] = this.call([{ name, arguments: args }]);
    this.result(id!, output, isError);
  }

  compaction(firstKeptEntryId: string, summary: string, more: Record<string, unknown> = {}): string {
    return this.add({ type: "compaction", summary, firstKeptEntryId, tokensBefore: 1, ...more });
  }
}

const MODEL = { provider: "anthropic", model: "claude-test" };

/** The plan of a path that has something to compact. */
export function planned(
  path: PathBuilder,
  settings: Partial<CompactionSettings> = {},
  options: PrepareOptions = {},
): CompactionPreparation {
  const plan = prepareCompaction(path.entries, settings, options);
  if (!plan.eligible) throw new Error(plan.reason);
  return plan;
}
