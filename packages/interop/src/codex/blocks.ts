import {
  type ContentBlock,
  contentBlocks,
  isRecord,
  type ToolCallBlock,
  type Usage,
  type UserContent,
} from "@espalier/session-tree";
import type { FormatIssues } from "../formats/conversation.ts";
import { nativeBlock, withNative } from "../formats/native.ts";
import { readArguments, readContent, reasoningText } from "../formats/openai-blocks.ts";
import type { KnownEntry } from "../import/draft.ts";
import { type EntryBody, idFromText, type SourceTime } from "../import/entry.ts";
import type { CodexSettings } from "./settings.ts";

type Fields = Record<string, unknown>;

const FORMAT = "openai-responses";

/** Where something is read, and for whom it was written. */
export interface Reading {
  /** The line, as issues name it. */
  place: string;
  provider: string;
  issues: FormatIssues;
}

/** The content of a message: text where it is nothing else. */
export function readSaid(content: unknown, { place, provider, issues }: Reading): UserContent {
  if (typeof content === "string") return content;
  const blocks = readContent(content ?? [], place, issues, provider);
  const [only] = blocks;
  if (blocks.length === 1 && only?.type === "text" && Object.keys(only).length === 2) return only.text;
  return blocks as UserContent;
}

/** A call of a tool that ran on this machine; undefined for every other item. */
export function readCall(item: Fields, { place, issues }: Reading): ToolCallBlock | undefined {
  const { type, call_id, id, name, arguments: given, input, action } = item;
  const callId = typeof call_id === "string" ? call_id : type === "local_shell_call" ? id : undefined;
  if (typeof callId !== "string") return undefined;
  const call = (toolName: string, input: Fields): ToolCallBlock => ({
    type: "toolCall",
    id: callId,
    name: toolName,
    arguments: input,
  });
  if (type === "function_call" && typeof name === "string")
    return call(name, readArguments(given, place, issues));
  if (type === "custom_tool_call" && typeof name === "string")
    return withNative(call(name, { input: typeof input === "string" ? input : "" }), FORMAT, { type });
  if (type === "local_shell_call") return call("local_shell", isRecord(action) ? action : {});
  if (type === "tool_search_call")
    return call("tool_search", isRecord(given) ? given : readArguments(given, place, issues));
  return undefined;
}

/** What a tool that the provider runs did: nobody else can say it, and nothing answers it. */
export function readHosted(item: Fields, { place, provider, issues }: Reading): ContentBlock {
  issues.opaque(item["type"], place);
  return nativeBlock(FORMAT, item, provider);
}

/** The result of a call. */
export function resultBody(item: Fields, toolName: string, timestamp: number, reading: Reading): EntryBody {
  const { call_id, output, tools } = item;
  const { content, success } = isRecord(output) ? output : { content: output ?? tools, success: undefined };
  const isPlain = typeof content === "string" || (Array.isArray(content) && content.every(isPart));
  const said = isPlain
    ? readSaid(content, reading)
    : JSON.stringify(isRecord(output) ? output : (content ?? ""));
  return {
    type: "message",
    message: {
      role: "toolResult",
      toolCallId: typeof call_id === "string" ? call_id : "",
      toolName,
      content: contentBlocks({ content: said }),
      isError: success === false,
      timestamp,
    },
  };
}

const isPart = (part: unknown): boolean =>
  isRecord(part) && typeof part["type"] === "string" && /^(input|output)_/.test(part["type"]);

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
