import type { ContentBlock, Usage } from "@espalier/session-tree";
import { reasoningText } from "../formats/openai-items.ts";
import type { KnownEntry } from "../import-draft.ts";
import type { EntryBody, SourceTime } from "../import-entry.ts";
import { idFromText } from "../import-ids.ts";
import type { CodexSettings } from "./codex-settings.ts";

/** The items of one answer, gathered until something else follows. */
export class OpenAnswer {
  readonly time: SourceTime;
  readonly #id: string;
  readonly #known: KnownEntry | undefined;
  readonly #content: ContentBlock[] = [];
  readonly #encrypted: Record<string, unknown>[] = [];
  #lines = 0;

  /** @param known what an earlier import made of it */
  constructor(id: string, time: SourceTime, known: KnownEntry | undefined) {
    this.#id = id;
    this.time = time;
    this.#known = known;
  }

  /** True when no further line belongs to it, since it is in the session already. */
  get isComplete(): boolean {
    return this.#lines === this.#known?.lines;
  }

  /** True when it is in the session already, and what it cost is not: an earlier import ended in between. */
  get lacksBill(): boolean {
    return this.isComplete && this.#known?.isBilled === false;
  }

  /** An answer that another branch took further is another entry. */
  get entryId(): string {
    return (this.#known?.lines ?? 0) > this.#lines
      ? idFromText(`${this.#id}/first/${this.#lines}`)
      : this.#id;
  }

  /** Takes in what one line says; `encrypted` is what only its provider can read. */
  add(blocks: readonly ContentBlock[], encrypted?: Record<string, unknown>): void {
    this.#lines++;
    for (const block of blocks) this.#content.push(block);
    if (encrypted) this.#encrypted.push(encrypted);
  }

  /** The calls in it: id and name of the tool. */
  calls(): [id: string, name: string][] {
    return this.#content.flatMap((block): [string, string][] =>
      block.type === "toolCall" ? [[block.id, block.name]] : [],
    );
  }

  text(): string {
    return this.#content.flatMap((block) => (block.type === "text" ? [block.text] : [])).join("\n");
  }

  body({ provider, model }: CodexSettings, usage: Usage | undefined): EntryBody {
    return {
      type: "message",
      message: {
        role: "assistant",
        content: this.#content,
        api: "openai-responses",
        provider,
        model: model ?? "unknown",
        ...(usage ? { usage } : {}),
        stopReason: this.calls().length > 0 ? "toolUse" : "stop",
        timestamp: this.time.ms,
      },
      ...(this.#lines > 1 ? { sourceLines: this.#lines } : {}),
      // Beside the message, not in it: nothing that builds a request looks here, whoever the request is for.
      ...(this.#encrypted.length > 0 ? { details: { provider, encryptedReasoning: this.#encrypted } } : {}),
    };
  }
}

/** What people may read of a reasoning item. */
export function reasoningBlocks(item: Record<string, unknown>): ContentBlock[] {
  const thinking = reasoningText(item);
  return thinking === "" ? [] : [{ type: "thinking", thinking }];
}

/** What nobody but its provider can read of a reasoning item. */
export function encryptedPart({
  id,
  encrypted_content,
}: Record<string, unknown>): Record<string, unknown> | undefined {
  if (typeof encrypted_content !== "string" || encrypted_content === "") return undefined;
  return { ...(typeof id === "string" ? { id } : {}), encrypted_content };
}
