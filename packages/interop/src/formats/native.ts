import {
  type AssistantMessage,
  type ContentBlock,
  type ContextMessage,
  contentBlocks,
  healedImage,
  isBlank,
  isFailedAnswer,
  isRecord,
  type RequestFormat,
  type SessionContext,
  toolCalls,
} from "@espalier/session-tree";

/** Formats in which a conversation can be read and written. */
export type FormatName = "anthropic" | "openai-chat" | "openai-responses" | "ai-sdk";

/**
 * Fields that only one format has: additional fields of a text, an image, a call or a result, or the whole block in a
 * {@link NativeBlock}. They are sent back only to their own format and, if they name a provider, only to that provider.
 * In the session file they are next to the other fields of a block; programs that do not know them read the block
 * without them.
 */
export interface Native {
  format: FormatName;
  /** Set for content that only one provider can read, because it encrypted it, stores it, or ran its tool. */
  provider?: string;
  value: Record<string, unknown>;
}

/**
 * A block that only one format has, stored unchanged. Requests in other formats have a short text in its place
 * (`[Content of type anthropic.document left out]`).
 */
export interface NativeBlock {
  /** Name of the format, a dot, and the block's type in that format. */
  type: string;
  native: Native;
}

/** An image at an address: every format here can write it, but the session format has no type for it. */
interface RemoteImageBlock {
  type: "imageUrl";
  url: string;
  native?: Native;
}

/** Casts block types beyond those of the session format, which stores unknown blocks. */
const stored = (block: NativeBlock | RemoteImageBlock): ContentBlock => block as unknown as ContentBlock;

/** Makes a block of one format for a message. */
export function nativeBlock(
  format: FormatName,
  value: Record<string, unknown>,
  provider?: string,
): ContentBlock {
  const native: Native = { format, ...(provider === undefined ? {} : { provider }), value };
  return stored({ type: `${format}.${String(value["type"])}`, native });
}

/** Returns a block with the fields that only one format has and that are not null; without any, the block alone. */
export function withNative<Block extends object>(
  block: Block,
  format: FormatName,
  fields: Record<string, unknown>,
): Block {
  const used = Object.entries(fields).filter(([, value]) => value !== null);
  if (used.length === 0) return block;
  return { ...block, native: { format, value: Object.fromEntries(used) } satisfies Native };
}

/** Returns whether a block is a refusal of OpenAI: a text, not blank, with type `refusal` in its native fields. */
export const refusesIn = (blocks: readonly ContentBlock[], format: FormatName): boolean =>
  blocks.some((block) => {
    if (block.type !== "text" || nativeFor(block, format)?.value["type"] !== "refusal") return false;
    return typeof block.text === "string" && !isBlank(block.text);
  });

/** Returns the native fields of a block or a message for this format; undefined for invalid values of a file. */
export function nativeFor(holder: object, format: FormatName): Native | undefined {
  const { native } = holder as { native?: unknown };
  if (!isRecord(native) || native["format"] !== format || !isRecord(native["value"])) return undefined;
  return native as unknown as Native;
}

/**
 * An image at an address, which may be a `data:` address. For an image in the message itself, `data` and `mediaType`
 * are set.
 */
interface Picture {
  url: string;
  data?: string;
  mediaType?: string;
}

/** Ids that connect native blocks. Common calls and their results are not connected by them, but by the request. */
export interface NativeTies {
  /** Id of a call that must have a result. */
  call?: unknown;
  /** Id of a call whose result can be missing. */
  question?: unknown;
  /** Id of the call to which a result belongs. */
  result?: unknown;
  /** Id of the program, a native call, that makes this common call. */
  caller?: unknown;
}

/** Functions with which an API writes common blocks that have additional fields. */
interface NativeWriting {
  /** Writes a text of a user, or of an answer (`isAnswer`); undefined to write it without its additional fields. */
  text(text: string, fields: Record<string, unknown>, isAnswer: boolean): object | undefined;
  picture(picture: Picture, fields: Record<string, unknown>): object;
  /** Type of a block that is the client's although it is in an answer: it is sent back to any provider. */
  ofClient?: string;
  /** True: an answer has texts and calls only. Other blocks of this API in it are left out. */
  isPlainAnswer?: boolean;
  /** Returns the ids in native fields. Without this function, no native block depends on another one. */
  ties?(fields: Record<string, unknown>): NativeTies;
  /**
   * True: native calls are run by the provider. One in a paused answer, or next to calls of the client, runs after the
   * request.
   */
  isServed?: boolean;
}

/**
 * Makes a format that gives a provider its own blocks back. A block is included when its format is the format of the
 * request, it names no provider or that of the model, and, in an answer, the provider of the model gave the answer. A
 * block of type `ofClient` is included for any provider of the answer.
 */
export function nativeFormat<Request>(
  base: RequestFormat<Request>,
  format: FormatName,
  writing: NativeWriting,
): RequestFormat<Request> {
  const { text, picture, ofClient, isPlainAnswer, ties } = writing;
  return {
    ...base,
    /**
     * A refusal is recorded as a failed answer. Its own provider accepts it, so the request includes it like any other
     * answer.
     */
    prepare(context, model) {
      const prepared = base.prepare?.(context, model) ?? context;
      const messages = prepared.messages.map((message): ContextMessage => {
        const isTakenBack =
          message?.role === "assistant" &&
          message.provider === model?.provider &&
          message.stopReason === "error" &&
          refusesIn(contentBlocks(message), format);
        return isTakenBack ? { ...message, stopReason: "stop" } : message;
      });
      const paired = ties ? withoutSingles(messages, model, format, writing) : messages;
      return { ...prepared, messages: paired };
    },
    opaque(part, { answer, model }) {
      const { provider = model?.provider, value } = nativeFor(part, format) ?? {};
      const fields = provider === model?.provider ? value : undefined;
      if ("role" in part && part.role === "toolResult") return fields;
      const block = part as ContentBlock;
      if (answer && answer.provider !== model?.provider) return block.type === ofClient ? fields : undefined;
      if (block.type === "toolCall") return answer ? fields : undefined;
      if (block.type === "text") {
        const isEmpty = typeof block.text !== "string" || isBlank(block.text);
        return fields && !isEmpty ? text(block.text, fields, answer !== undefined) : undefined;
      }
      if (block.type.startsWith(`${format}.`)) return answer && isPlainAnswer ? undefined : fields;
      if (answer) return undefined;
      const { type, url } = block as { type: string; url?: unknown };
      if (type === "imageUrl" && typeof url === "string") return picture({ url }, fields ?? {});
      const image = fields && block.type === "image" ? healedImage(block) : undefined;
      if (!fields || image?.type !== "image") return undefined;
      return picture({ ...image, url: `data:${image.mediaType};base64,${image.data}` }, fields);
    },
  };
}

/**
 * Leaves out native calls without a result and native results without a call, because an API refuses a request with
 * either: an answer was cut off, hidden or compacted, or another provider gave it. A call for which the request waits is
 * sent. Common calls that a left-out program made are sent without their native fields.
 */
function withoutSingles(
  messages: readonly ContextMessage[],
  model: SessionContext["model"],
  format: FormatName,
  { ties = () => ({}), isServed, ofClient }: NativeWriting,
): ContextMessage[] {
  const tiesOf = (block: ContentBlock): NativeTies => {
    const { provider = model?.provider, value } = nativeFor(block, format) ?? {};
    return value && provider === model?.provider ? ties(value) : {};
  };
  const known = new Map<unknown, ContentBlock>();
  const awaited = new Map<unknown, ContentBlock>();
  const single = new Set<ContentBlock>();
  let isTied = false;
  for (const message of messages) {
    if (!message || isFailedAnswer(message)) continue;
    const isOwn = message.role !== "assistant" || message.provider === model?.provider;
    for (const block of contentBlocks(message)) {
      if (!isOwn && block.type !== ofClient) continue;
      const { call, question, result, caller } = tiesOf(block);
      if (result !== undefined && !awaited.delete(result)) single.add(block);
      const id = call ?? question;
      isTied ||= (id ?? result ?? caller) !== undefined;
      if (id === undefined) continue;
      const earlier = awaited.get(id);
      if (earlier) single.add(earlier);
      awaited.set(id, block);
      known.set(id, block);
    }
  }
  if (!isTied) return [...messages];
  const lastAt = messages.findLastIndex(
    (message) => message?.role === "assistant" && !isFailedAnswer(message),
  );
  const last = messages[lastAt] as AssistantMessage | undefined;
  const calls = last ? toolCalls(last) : [];
  const runsNext =
    isServed && last && (calls.length > 0 || last.stopReason !== "length") ? contentBlocks(last) : [];
  const isSaid = messages.slice(lastAt + 1).some((message) => saysMore(message, tiesOf));
  for (const [id, block] of awaited) {
    const waits = runsNext.includes(block) || calls.some((made) => tiesOf(made).caller === id);
    if (tiesOf(block).call !== undefined && (isSaid || !waits)) single.add(block);
  }
  const isOrphan = (block: ContentBlock): boolean => {
    const { caller } = block.type === "toolCall" ? tiesOf(block) : {};
    const program = known.get(caller);
    return caller !== undefined && (program === undefined || single.has(program));
  };
  return messages.map((message) => {
    const blocks = message && !isFailedAnswer(message) ? contentBlocks(message) : [];
    if (!blocks.some((block) => single.has(block) || isOrphan(block))) return message;
    const content = blocks
      .filter((block) => !single.has(block))
      .map((block) => (isOrphan(block) ? { ...block, native: undefined } : block));
    return { ...message, content } as ContextMessage;
  });
}

/** Returns whether a message after the last answer says more to the model than results. */
function saysMore(message: ContextMessage | undefined, tiesOf: (block: ContentBlock) => NativeTies): boolean {
  if (message?.role === "bashExecution") return message.excludeFromContext !== true;
  if (message?.role === "user" || message?.role === "custom")
    return contentBlocks(message).some((block) => tiesOf(block).result === undefined);
  return message?.role === "branchSummary" || message?.role === "compactionSummary";
}

/** Maximum depth of a value in a session: lines are at most 256 deep, and blocks are inside a message. */
const DEEPEST = 200;

/** Number of bytes that one call converts to characters: the number of arguments of a call is limited. */
const CHUNK = 32_768;

/**
 * Converts a value from outside to plain JSON for a session: well-formed Unicode, addresses and dates as text, bytes as
 * base64 (a client's messages have both). `lost` receives the path of each value that JSON cannot express: functions,
 * NaN and infinities, maps and sets, keys `__proto__`, cycles, and values nested deeper than 200. A lost field is left
 * out, a lost element of a list becomes null.
 *
 * @param above containers around the value, outermost first
 */
export function plainJson(
  value: unknown,
  lost: (path: string) => void,
  path = "",
  above: readonly object[] = [],
): unknown {
  if (typeof value === "string") return value.toWellFormed();
  if (value === null || value === undefined || typeof value === "boolean") return value;
  if (typeof value === "number" && Number.isFinite(value)) return value;
  if (typeof value !== "object" || value instanceof Map || value instanceof Set) {
    lost(path);
    return undefined;
  }
  if (value instanceof URL) return value.href;
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? null : value.toISOString();
  if (value instanceof ArrayBuffer) return base64(new Uint8Array(value));
  if (ArrayBuffer.isView(value))
    return base64(new Uint8Array(value.buffer, value.byteOffset, value.byteLength));
  if (above.length > DEEPEST || above.includes(value)) {
    lost(path);
    return undefined;
  }
  const within = [...above, value];
  if (Array.isArray(value)) {
    // A lost element of a list becomes null, so that the others keep their index.
    return Array.from(value, (item, index) => plainJson(item, lost, `${path}[${index}]`, within) ?? null);
  }
  const copy: Record<string, unknown> = {};
  for (const [key, item] of Object.entries(value)) {
    const place = path === "" ? key : `${path}.${key}`;
    if (key === "__proto__") lost(place);
    else {
      const plainItem = plainJson(item, lost, place, within);
      if (plainItem !== undefined) copy[key.toWellFormed()] = plainItem;
    }
  }
  return copy;
}

function base64(bytes: Uint8Array): string {
  let binary = "";
  for (let at = 0; at < bytes.length; at += CHUNK)
    binary += String.fromCharCode(...bytes.subarray(at, at + CHUNK));
  return btoa(binary);
}

/** Matches the beginning of a base64 `data:` address, such as `data:image/png;base64,iVBOR…`. */
const DATA_URL = /^data:([^;,]+)(?:;[^;,]+)*;base64,/i;

const WEB_ADDRESS = /^https?:/i;

/**
 * Returns the image at an address of the web, or the one in a base64 `data:` address. Undefined for all other values,
 * such as addresses with `file:` and `gs:`, which only some clients can read: the caller keeps them for its own format.
 *
 * @param fields fields that only the format has; `remote` are those of an image at an address of the web
 */
export function imageAt(
  url: unknown,
  format: FormatName,
  fields: Record<string, unknown>,
  remote = fields,
): ContentBlock | undefined {
  if (typeof url !== "string") return undefined;
  const [beginning = "", mimeType] = DATA_URL.exec(url) ?? [];
  const data = url.slice(beginning.length);
  if (mimeType !== undefined) return withNative({ type: "image" as const, mimeType, data }, format, fields);
  return WEB_ADDRESS.test(url) ? stored(withNative({ type: "imageUrl", url }, format, remote)) : undefined;
}
