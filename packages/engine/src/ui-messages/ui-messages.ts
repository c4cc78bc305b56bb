import { isDeepStrictEqual } from "node:util";
import { nativeFor, reasoningParts } from "@espalier/interop";
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
  messagesOf,
  messageText,
  parsedJson,
  type ToolResultMessage,
  tipRows,
} from "@espalier/session-tree";
import type { UIMessage } from "ai";
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
  const said = await saidOn(session);
  return said.map(({ message: shown }) => structuredClone(shown) as unknown as Message);
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

/** Reads the messages of a path. Default: the path of the leaf. */
export async function saidOn(session: Session, endId?: string): Promise<SaidMessage[]> {
  const said: SaidMessage[] = [];
  for (const entry of await session.withinReach(() => session.getBranch(endId))) take(said, entry);
  return said;
}

/** Returns the id of the newest end below an entry; the entry's own id when there is none. Throws `unknown-entry`. */
export function newestEnd({ tree }: Session, id: string): string {
  const row = tree.row(id);
  const end = tipRows(tree).findLast((tip) => isOnPath(tree, row, tip));
  return end === undefined ? id : tree.idAt(end);
}

/** Adds the next entry of a path to its messages. */
export function take(said: SaidMessage[], entry: Entry): void {
  const last = said.at(-1);
  const read = readEntry(entry, last);
  if (!read) return;
  if (read.first === last?.first) said.pop();
  said.push(read);
}

/** Returns the message that an entry begins, or the last message with the entry; undefined when it changes none. */
function readEntry(entry: Entry, last: SaidMessage | undefined): SaidMessage | undefined {
  if (isCustom(entry, UI))
    return last && { ...last, message: patched(last.message, entry.data), last: entry };
  const [stored] = message.is(entry) || customMessage.is(entry) ? messagesOf(entry) : [];
  const { ui } = (stored ?? {}) as { ui?: UiPatch };
  const open = last?.message.role === "assistant" ? last : undefined;
  const begin = (role: PlainMessage["role"], parts: Part[]): SaidMessage => {
    const shown = parts.length > 0 || role === "assistant" ? parts : [{ type: "text", text: "" }];
    return { message: patched({ id: entry.id, role, parts: shown }, ui), first: entry, last: entry };
  };
  const goOn = (given: SaidMessage, parts: Part[]): SaidMessage => ({
    ...given,
    message: patched({ ...given.message, parts }, ui),
    last: entry,
  });
  switch (stored?.role) {
    case "user": {
      const blocks = contentBlocks(stored);
      const responses = blocks.map(nativeOf).filter(({ type }) => type === "tool-approval-response");
      return open && responses.length > 0 && responses.length === blocks.length
        ? goOn(open, responses.reduce(withApproval, open.message.parts))
        : begin("user", blocks.map(partOf));
    }
    case "assistant": {
      const isNext = open && (ui?.id ?? open.message.id) === open.message.id;
      const kept = isNext ? open.message.parts.slice(0, open.beforeFailure) : [];
      const parts = [...kept, ...answerParts(contentBlocks(stored))];
      const beforeFailure = isFailedAnswer(stored) ? kept.length : undefined;
      return { ...(isNext ? goOn(open, parts) : begin("assistant", parts)), beforeFailure };
    }
    case "toolResult":
      return open && goOn(open, withResult(open.message.parts, stored));
    case "system":
      // The session's own system prompt is no message of the conversation.
      return ui && begin("system", [{ type: "text", text: contentText(stored) }]);
    case "bashExecution":
      return begin("user", [{ type: "text", text: `$ ${messageText(stored)}` }]);
    case "custom":
      return stored.display ? begin("user", contentBlocks(stored).map(partOf)) : undefined;
  }
  return undefined;
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
    const known = places.get(keyOf(part)) ?? [];
    places.set(keyOf(part), known);
    known.push(at);
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

/** Returns the approval of a call; an empty object when it has none. */
export const approvalOf = ({ approval }: Part): Fields => (isRecord(approval) ? approval : {});

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

type Fields = Record<string, unknown>;

function answerParts(blocks: readonly ContentBlock[]): Part[] {
  let parts: Part[] = [];
  for (const block of blocks) {
    const native = nativeOf(block);
    if (block.type === "text") {
      if (block.text !== "") parts.push({ ...partOf(block), state: "done" });
    } else if (block.type === "thinking")
      for (const { text, ...rest } of reasoningParts(block))
        parts.push({ type: "reasoning", text, ...metadataOf(rest), state: "done" });
    else if (block.type === "toolCall" || native["type"] === "tool-call") parts.push(callPart(block));
    else if (native["type"] === "tool-result") parts = withOutput(parts, native);
    else if (native["type"] === "tool-approval-request") parts = withApproval(parts, native);
    else parts.push(partOf(block));
  }
  return parts.length > 0 ? [{ type: "step-start" }, ...parts] : [];
}

function callPart(block: ContentBlock): Part {
  const { id, name, arguments: given } = block as unknown as Fields;
  const native = nativeOf(block);
  const { toolCallId = id, toolName = name, input = given, providerOptions, providerExecuted } = native;
  return {
    type: `tool-${String(toolName)}`,
    toolCallId,
    state: "input-available",
    input,
    ...(providerExecuted === true ? { providerExecuted } : {}),
    ...(providerOptions === undefined ? {} : { callProviderMetadata: providerOptions }),
  };
}

/** Returns a text, an image or another file; a short text for a block that only another provider can read. */
function partOf(block: ContentBlock): Part {
  const { type, text, data, mimeType, url } = block as unknown as Fields;
  const native = nativeOf(block);
  const { mediaType, filename, data: given } = native;
  const metadata = metadataOf(native);
  const file = (fileUrl: string, fileType: unknown): Part => ({
    type: "file",
    mediaType: typeof fileType === "string" && fileType !== "" ? fileType : "image/*",
    ...(typeof filename === "string" ? { filename } : {}),
    url: fileUrl,
    ...metadata,
  });
  if (type === "text") return { type, text, ...metadata };
  if (type === "image") return file(`data:${String(mimeType)};base64,${String(data)}`, mimeType);
  if (type === "imageUrl") return file(String(url), mediaType);
  if (type === "ai-sdk.file" && typeof given === "string")
    return file(/^[a-z]+:/i.test(given) ? given : `data:${String(mediaType)};base64,${given}`, mediaType);
  return { type: "text", text: `[Content of type ${String(type)}]` };
}

const metadataOf = ({ providerOptions }: Fields): Fields =>
  providerOptions === undefined ? {} : { providerMetadata: providerOptions };

/** Returns the fields of a block or message that only the AI SDK has: the whole part, if only the SDK has such a part. */
const nativeOf = (block: ContentBlock | ToolResultMessage): Fields => nativeFor(block, "ai-sdk")?.value ?? {};

/** Fields of an approval. Its request has the last two, and its response the others. */
const APPROVAL = new Set(["approved", "reason", "signature", "inputSchemaInput"]);

/** Returns the parts with a request or its response added to the newest call with its id. */
function withApproval(parts: readonly Part[], given: Fields): Part[] {
  const { type, toolCallId, approvalId: id, approved } = given;
  const isRequest = type === "tool-approval-request";
  const fields = Object.fromEntries(Object.entries(given).filter(([name]) => APPROVAL.has(name)));
  const at = parts.findLastIndex(
    (part) => isTool(part) && (isRequest ? part["toolCallId"] === toolCallId : approvalOf(part)["id"] === id),
  );
  const part = parts[at];
  if (!part) return [...parts];
  const state = isRequest ? "approval-requested" : stateAfter(part, approved);
  return parts.with(at, { ...part, state, approval: { ...approvalOf(part), id, ...fields } });
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
  const native = nativeOf(result);
  const type = typeof native["type"] === "string" ? native["type"] : result.isError ? "error-text" : "text";
  const blocks = contentBlocks(result);
  const text = contentText(result);
  // A result that was shortened is no longer JSON: it stays text.
  const json = type === "json" ? parsedJson(text) : undefined;
  const whole = json === undefined ? text : json;
  const isText = blocks.every((block) => block.type === "text");
  const value = isText ? whole : { type: "content", value: blocks.map(outputPart) };
  return withOutput(parts, { toolCallId: result.toolCallId, output: { type, value } });
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
  const isError = type === "execution-denied" || String(type).startsWith("error");
  const changed =
    isError && approvalOf(part)["approved"] === false
      ? { state: "output-denied" }
      : isError
        ? { state: "output-error", errorText: typeof value === "string" ? value : JSON.stringify(value) }
        : { state: "output-available", output: type === "content" ? { type, value } : value };
  return parts.with(at, { ...part, ...changed });
}
