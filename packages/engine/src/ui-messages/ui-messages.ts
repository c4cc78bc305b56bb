import { isDeepStrictEqual } from "node:util";
import { type AiSdkReasoning, fromAiSdk, nativeFor, reasoningParts } from "@espalier/interop";
import {
  type ContentBlock,
  contentBlocks,
  contentText,
  customMessage,
  type Entry,
  isCustom,
  isFailedAnswer,
  isOnPath,
  isRecord,
  message,
  messageText,
  parsedJson,
  type StoredMessage,
  type ToolResultMessage,
  tipRows,
} from "@espalier/session-tree";
import type { ToolSet, UIMessage } from "ai";
import { loadAiSdk } from "../providers/ai-sdk.ts";
import type { Session } from "../session/session.ts";

/**
 * Returns the conversation at the leaf as `useChat` shows it: every message of the path, including those that a
 * compaction has replaced for the model, by any author. Calls have their results and approvals; each answer of the
 * model begins with a `step-start`. Summaries, edits and marks are no messages. A failed answer that was repeated is
 * left out.
 *
 * The id is the one with which the message was saved, or that of its first entry.
 */
export async function uiMessages<Message extends UIMessage = UIMessage>(
  session: Session,
): Promise<Message[]> {
  const { said } = await conversationOf(session);
  return said.map(({ message: { id, role, metadata, parts } }) => {
    const shown = { id, role, ...(metadata === undefined ? {} : { metadata }), parts };
    return structuredClone(shown) as unknown as Message;
  });
}

/** A part of a UI message, of any type. */
export type Part = { type: string } & Record<string, unknown>;

/** A UI message without the types of its parts. */
export interface PlainMessage {
  id: string;
  role: "system" | "user" | "assistant";
  metadata?: unknown;
  parts: Part[];
}

/** A message, and its first and last entry. */
export interface SaidMessage {
  message: PlainMessage;
  first: Entry;
  last: Entry;
  /** Number of parts before its last answer, if that failed: another answer replaces it. */
  beforeFailure?: number | undefined;
}

/** `customType` of an entry that changes a UI message and that the model does not read. */
export const UI = "espalier.ui";

/**
 * Data of a UI message that its entries do not have. It is in the field `ui` of its last entry's message, or in an
 * entry of type {@link UI}, so that the log has no data twice.
 */
export interface UiPatch {
  /** Id; absent when it is that of the first entry. */
  id?: string;
  metadata?: unknown;
  /** All parts in order: references to parts of entries, with other fields, or whole parts. */
  parts?: (PartReference | Part)[];
}

interface PartReference {
  /** Index of the part among those of the entries. */
  at: number;
  set?: Record<string, unknown>;
  unset?: string[];
}

/** Reads a path as UI messages. Default: the path of the leaf. */
export async function conversationOf(session: Session, endId?: string): Promise<Conversation> {
  const conversation = new Conversation();
  for (const entry of await session.withinReach(() => session.getBranch(endId))) conversation.take(entry);
  return conversation;
}

/** Returns the id of the newest end below an entry; the entry's own id when there is none. Throws `unknown-entry`. */
export function newestEnd({ tree }: Session, id: string): string {
  const row = tree.row(id);
  const end = tipRows(tree).findLast((tip) => isOnPath(tree, row, tip));
  return end === undefined ? id : tree.idAt(end);
}

/** UI messages of a path, entry by entry. */
export class Conversation {
  readonly said: SaidMessage[];

  constructor(said: readonly SaidMessage[] = []) {
    this.said = [...said];
  }

  take(entry: Entry): void {
    if (message.is(entry)) {
      this.#takeMessage(entry, entry.message);
      return;
    }
    const last = this.said.at(-1);
    if (isCustom(entry, UI) && last) this.#change(entry, patched(last.message, entry.data));
    else if (customMessage.is(entry) && entry.display)
      this.#begin(entry, "user", userParts(contentBlocks(entry)));
  }

  #takeMessage(entry: Entry, stored: StoredMessage): void {
    const { ui } = stored as { ui?: UiPatch };
    const last = this.said.at(-1);
    const open = last?.message.role === "assistant" ? last.message : undefined;
    switch (stored.role) {
      case "user": {
        const blocks = contentBlocks(stored);
        const approvals = blocks.map(nativeOf).filter(({ type }) => type === "tool-approval-response");
        if (open && approvals.length > 0 && approvals.length === blocks.length)
          this.#change(entry, { ...open, parts: approvals.reduce(withApproval, open.parts) }, ui);
        else this.#begin(entry, "user", userParts(blocks), ui);
        break;
      }
      case "assistant": {
        const isNext = open !== undefined && (ui?.id ?? open.id) === open.id;
        const kept = isNext ? open.parts.slice(0, last?.beforeFailure) : [];
        const parts = [...kept, ...answerParts(contentBlocks(stored))];
        if (isNext) this.#change(entry, { ...open, parts }, ui);
        else this.#begin(entry, "assistant", parts, ui);
        this.said.at(-1)!.beforeFailure = isFailedAnswer(stored) ? kept.length : undefined;
        break;
      }
      case "toolResult":
        if (open) this.#change(entry, { ...open, parts: withResult(open.parts, stored) }, ui);
        break;
      case "system":
        // The session's own system prompt is no message of the conversation.
        if (ui) this.#begin(entry, "system", [{ type: "text", text: contentText(stored) }], ui);
        break;
      case "bashExecution":
        this.#begin(entry, "user", [{ type: "text", text: `$ ${messageText(stored)}` }], ui);
        break;
      case "custom":
        if (stored.display) this.#begin(entry, "user", userParts(contentBlocks(stored)), ui);
        break;
    }
  }

  #begin(first: Entry, role: PlainMessage["role"], parts: Part[], ui?: UiPatch): void {
    const isEmpty = parts.length === 0 && role !== "assistant";
    const said = { id: first.id, role, parts: isEmpty ? [{ type: "text", text: "" }] : parts };
    this.said.push({ message: patched(said, ui), first, last: first });
  }

  #change(last: Entry, changed: PlainMessage, ui?: UiPatch): void {
    const { first, beforeFailure } = this.said.at(-1)!;
    this.said[this.said.length - 1] = { message: patched(changed, ui), first, last, beforeFailure };
  }
}

function patched(said: PlainMessage, patch: unknown): PlainMessage {
  if (!isRecord(patch)) return said;
  const { id, metadata, parts } = patch as UiPatch;
  return {
    ...said,
    ...(typeof id === "string" ? { id } : {}),
    ...(metadata === undefined ? {} : { metadata }),
    ...(Array.isArray(parts) ? { parts: parts.flatMap((part) => resolved(part, said.parts)) } : {}),
  };
}

/** Returns a part by its reference; none for a missing part, for example after a change by another program. */
function resolved(part: PartReference | Part, said: readonly Part[]): Part[] {
  if ("type" in part) return [part];
  const { at, set, unset = [] } = part;
  const found = said[at];
  if (!found) return [];
  const kept = Object.entries(found).filter(([name]) => !unset.includes(name));
  return [{ ...Object.fromEntries(kept), ...set } as Part];
}

/** Returns the patch that changes `said` to `wanted`; undefined when they are equal. */
export function patchBetween(said: PlainMessage, wanted: PlainMessage): UiPatch | undefined {
  const patch: UiPatch = {
    ...(said.id === wanted.id ? {} : { id: wanted.id }),
    ...(isDeepStrictEqual(said.metadata, wanted.metadata) ? {} : { metadata: wanted.metadata ?? null }),
    ...(isDeepStrictEqual(said.parts, wanted.parts) ? {} : { parts: references(said.parts, wanted.parts) }),
  };
  return Object.keys(patch).length > 0 ? patch : undefined;
}

function references(said: readonly Part[], wanted: readonly Part[]): (PartReference | Part)[] {
  const places = new Map<string, number[]>();
  for (const [at, part] of said.entries()) {
    const known = places.get(keyOf(part));
    if (known) known.push(at);
    else places.set(keyOf(part), [at]);
  }
  return wanted.map((part) => {
    const at = places.get(keyOf(part))?.shift();
    if (at === undefined) return part;
    const found = said[at]!;
    const set = Object.entries(part).filter(([name, value]) => !isDeepStrictEqual(value, found[name]));
    const unset = Object.keys(found).filter((name) => !Object.hasOwn(part, name));
    return {
      at,
      ...(set.length > 0 ? { set: Object.fromEntries(set) } : {}),
      ...(unset.length > 0 ? { unset } : {}),
    };
  });
}

/**
 * Returns the key of a part. Parts with the same key are the same part in different states. Entries never have data and
 * sources.
 */
export function keyOf(part: Part): string {
  if (isTool(part)) return `tool ${String(part["toolCallId"])}`;
  if (part.type === "text" || part.type === "reasoning") return `${part.type} ${String(part["text"])}`;
  if (part.type === "file") return `file ${String(part["url"])}`;
  return part.type === "step-start" ? part.type : `other ${JSON.stringify(part)}`;
}

/** Returns whether a part is a call, of a typed or a dynamic tool. */
export const isTool = ({ type }: Part): boolean => type === "dynamic-tool" || type.startsWith("tool-");

/** Returns whether entries have this part, so that it is not only in the page. */
export const isSaid = (part: Part): boolean =>
  part.type === "text" ||
  part.type === "reasoning" ||
  part.type === "file" ||
  (isTool(part) && part["state"] !== "input-streaming");

/** Returns whether a call has ended: with a final output, an error or a denial. */
export const isFinal = ({ state, preliminary }: Part): boolean =>
  (state === "output-available" && preliminary !== true) ||
  state === "output-error" ||
  state === "output-denied";

function userParts(blocks: readonly ContentBlock[]): Part[] {
  return blocks.flatMap((block): Part[] => {
    if (block.type === "text") return [{ type: "text", text: block.text, ...metadataOf(block) }];
    return fileParts(block);
  });
}

function answerParts(blocks: readonly ContentBlock[]): Part[] {
  let parts: Part[] = [];
  for (const block of blocks) {
    const native = nativeOf(block);
    if (block.type === "text") {
      if (block.text !== "")
        parts.push({ type: "text", text: block.text, ...metadataOf(block), state: "done" });
    } else if (block.type === "thinking") parts.push(...reasoningParts(block).map(reasoningPart));
    else if (block.type === "toolCall") {
      const { id, name, arguments: input } = block;
      parts.push(callPart({ toolCallId: id, toolName: name, input, ...native }));
    } else if (native["type"] === "tool-call") parts.push(callPart(native));
    else if (native["type"] === "tool-result") parts = withOutput(parts, native);
    else if (native["type"] === "tool-approval-request") parts = withApproval(parts, native);
    else parts.push(...fileParts(block));
  }
  return parts.length > 0 ? [{ type: "step-start" }, ...parts] : [];
}

function reasoningPart({ text, providerOptions }: AiSdkReasoning): Part {
  const metadata = providerOptions ? { providerMetadata: providerOptions } : {};
  return { type: "reasoning", text, ...metadata, state: "done" };
}

function callPart({ toolCallId, toolName, input, providerOptions, providerExecuted }: Fields): Part {
  return {
    type: `tool-${String(toolName)}`,
    toolCallId,
    state: "input-available",
    input,
    ...(providerExecuted === true ? { providerExecuted } : {}),
    ...(providerOptions === undefined ? {} : { callProviderMetadata: providerOptions }),
  };
}

type Fields = Record<string, unknown>;

/** Returns the parts of an image or another file; a short text for a block that only another provider can read. */
function fileParts(block: ContentBlock): Part[] {
  const { type, data, mimeType, url } = block as unknown as Fields;
  const native = nativeOf(block);
  const { mediaType, filename } = native;
  const file = (fileUrl: string, fileType: unknown): Part[] => [
    {
      type: "file",
      mediaType: typeof fileType === "string" && fileType !== "" ? fileType : "image/*",
      ...(typeof filename === "string" ? { filename } : {}),
      url: fileUrl,
      ...metadataOf(block),
    },
  ];
  if (type === "image") return file(`data:${String(mimeType)};base64,${String(data)}`, mimeType);
  if (type === "imageUrl") return file(String(url), mediaType);
  if (type === "ai-sdk.file" && typeof native["data"] === "string") {
    const given = native["data"];
    return file(/^[a-z]+:/i.test(given) ? given : `data:${String(mediaType)};base64,${given}`, mediaType);
  }
  return [{ type: "text", text: `[Content of type ${String(type)}]` }];
}

function metadataOf(block: ContentBlock): Fields {
  const options = nativeOf(block)["providerOptions"];
  return options === undefined ? {} : { providerMetadata: options };
}

/** Returns the fields of a block that only the AI SDK has: the whole part, if only the SDK has such a part. */
const nativeOf = (block: ContentBlock): Fields => nativeFor(block, "ai-sdk")?.value ?? {};

function withApproval(parts: readonly Part[], given: Fields): Part[] {
  const { approvalId, toolCallId, approved, reason, signature } = given;
  const isRequest = given["type"] === "tool-approval-request";
  return parts.map((part) => {
    const approval = isRecord(part["approval"]) ? part["approval"] : {};
    if (!isTool(part) || (isRequest ? part["toolCallId"] !== toolCallId : approval["id"] !== approvalId))
      return part;
    const fields = isRequest
      ? {
          ...(signature === undefined ? {} : { signature }),
          ...(Object.hasOwn(given, "inputSchemaInput")
            ? { inputSchemaInput: given["inputSchemaInput"] }
            : {}),
        }
      : { approved, ...(reason === undefined ? {} : { reason }) };
    const state = isRequest ? "approval-requested" : stateAfter(part, approved);
    return { ...part, state, approval: { ...approval, id: approvalId, ...fields } };
  });
}

/** Returns the state of a call after the response to its approval, which may be recorded after the result. */
function stateAfter({ state }: Part, approved: unknown): unknown {
  return state === "approval-requested" || state === "input-available"
    ? "approval-responded"
    : approved === false
      ? "output-denied"
      : state;
}

/** Returns the parts with a call's result added to the newest call with its id. */
function withResult(parts: readonly Part[], result: ToolResultMessage): Part[] {
  const native = nativeFor(result, "ai-sdk")?.value ?? {};
  const blocks = contentBlocks(result);
  const isText = blocks.every(({ type }) => type === "text");
  const type = typeof native["type"] === "string" ? native["type"] : result.isError ? "error-text" : "text";
  const value = isText
    ? outputValue(contentText(result), type)
    : { type: "content", value: blocks.map(outputPart) };
  return withOutput(parts, { toolCallId: result.toolCallId, output: { type, value } });
}

function outputValue(text: string, type: string): unknown {
  // A result that was shortened is no longer JSON: it stays text.
  const json = type === "json" ? parsedJson(text) : undefined;
  return json === undefined ? text : json;
}

/** Returns a part of a result; a short text for a block that only another provider can read. */
function outputPart(block: ContentBlock): Fields {
  if (block.type === "text") return { type: "text", text: contentText({ content: [block] }) };
  if (block.type === "image") return { type: "image-data", data: block.data, mediaType: block.mimeType };
  const { type, url } = block as unknown as Fields;
  if (type === "imageUrl") return { type: "image-url", url };
  const native = nativeOf(block);
  return Object.hasOwn(native, "type") ? native : { type: "text", text: `[Content of type ${String(type)}]` };
}

function withOutput(parts: readonly Part[], { toolCallId, output }: Fields): Part[] {
  const at = parts.findLastIndex((part) => isTool(part) && part["toolCallId"] === toolCallId);
  const part = parts[at];
  if (!part || !isRecord(output)) return [...parts];
  const { type, value } = output;
  const approval = isRecord(part["approval"]) ? part["approval"] : {};
  const isError = type === "execution-denied" || String(type).startsWith("error");
  const changed =
    isError && approval["approved"] === false
      ? { state: "output-denied" }
      : isError
        ? { state: "output-error", errorText: typeof value === "string" ? value : JSON.stringify(value) }
        : { state: "output-available", output: type === "content" ? { type, value } : value };
  return parts.with(at, { ...part, ...changed });
}

/** Converts parts of one UI message to messages of the session, by the SDK's own conversion. */
export async function storedParts(
  parts: readonly Part[],
  role: "user" | "assistant",
  { model, tools }: { model: { provider: string; modelId: string }; tools?: ToolSet | undefined },
): Promise<StoredMessage[]> {
  const { convertToModelMessages } = await loadAiSdk();
  const given = [{ role, parts: parts.map(withoutPreliminary) }] as unknown as UIMessage[];
  const messages = await convertToModelMessages(given, tools ? { tools } : {});
  const stored = fromAiSdk(messages, { model, timestamp: Date.now() }).messages;
  const last = stored.at(-1);
  const isCut = parts.findLast(isSaid)?.["state"] === "streaming";
  return last?.role === "assistant" && isCut
    ? [...stored.slice(0, -1), { ...last, stopReason: "aborted" }]
    : stored;
}

/** Returns a call without its preliminary output, and any other part unchanged. */
function withoutPreliminary(part: Part): Part {
  if (isFinal(part) || part["preliminary"] !== true) return part;
  const { output: _output, preliminary: _preliminary, ...call } = part;
  return { ...call, state: "input-available" } as Part;
}
