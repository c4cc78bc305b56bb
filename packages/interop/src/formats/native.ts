import { type ContentBlock, isRecord } from "@espalier/session-tree";

/** The formats in which a conversation can be read and written here. */
export type FormatName = "anthropic" | "openai-chat" | "openai-responses" | "ai-sdk";

/**
 * What one format says and no other can: on a text, a picture or a call the fields beyond the common ones, on a
 * {@link NativeBlock} the block itself. It goes back to its own format only, and, where it names a provider, to that
 * provider only. It stands in the session file beside the other fields of a block; readers that do not know it see the
 * block without it.
 */
export interface Native {
  format: FormatName;
  /** Set for what a provider encrypted: no other can read it. */
  provider?: string;
  value: Record<string, unknown>;
}

/**
 * A block that only one format has, kept as it was. Requests in other formats carry a word in its place
 * (`[Content of type anthropic.document left out]`).
 */
export interface NativeBlock {
  /** The format's name, a dot, and the type the block has there. */
  type: string;
  native: Native;
}

/** A picture at an address: every format here can say it, the session format cannot. */
export interface RemoteImageBlock {
  type: "imageUrl";
  url: string;
  native?: Native;
}

/** Block types beyond those of the session format, which keeps what it does not know: the cast is for that. */
export const stored = (block: NativeBlock | RemoteImageBlock): ContentBlock =>
  block as unknown as ContentBlock;

/** A block of one format as it can stand in a message. */
export function nativeBlock(
  format: FormatName,
  value: Record<string, unknown>,
  provider?: string,
): ContentBlock {
  const native: Native = { format, ...(provider === undefined ? {} : { provider }), value };
  return stored({ type: `${format}.${String(value["type"])}`, native });
}

/** A block with the fields that only one format has; without any, the block alone. */
export function withNative<Block extends object>(
  block: Block,
  format: FormatName,
  value: Record<string, unknown>,
): Block {
  return Object.keys(value).length === 0 ? block : { ...block, native: { format, value } satisfies Native };
}

/** Whether one of these blocks is a refusal of OpenAI's: a text that says so beside it. */
export const refusesIn = (blocks: readonly unknown[], format: FormatName): boolean =>
  blocks.some((block) => {
    if (!isRecord(block) || nativeFor(block, format)?.value["type"] !== "refusal") return false;
    return typeof block["text"] === "string" && block["text"].trim() !== "";
  });

/** What a block or a message says to this format alone; undefined for anything else that a file may hold there. */
export function nativeFor(holder: object, format: FormatName): Native | undefined {
  const { native } = holder as { native?: unknown };
  if (!isRecord(native) || native["format"] !== format || !isRecord(native["value"])) return undefined;
  return native as unknown as Native;
}

/** True for a block that stands for one of this format as a whole. */
export function isNativeBlock(block: { type: string }, format: FormatName): boolean {
  return block.type.startsWith(`${format}.`) && nativeFor(block, format) !== undefined;
}

/** The address of a picture that is not in the message itself. */
export function remoteImageUrl(block: { type: string; url?: unknown }): string | undefined {
  return block.type === "imageUrl" && typeof block.url === "string" ? block.url : undefined;
}

/** The JSON value in a text; undefined where there is none. */
export function parsedJson(text: unknown): unknown {
  if (typeof text !== "string") return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // no JSON: the caller keeps the text as it is, and says so
  }
}

/** Deeper values cannot be written into a session: its lines are at most 256 deep, and blocks stand inside a message. */
const DEEPEST = 200;

/** How many bytes are turned into characters by one call: a call's arguments are limited. */
const CHUNK = 32_768;

/**
 * What was handed over from outside as plain JSON that a session can keep: well-formed Unicode, addresses as text, bytes
 * as base64 (a client's messages hold both). `lost` is told of each place whose value no JSON can say: functions,
 * numbers that are none, maps and sets, keys `__proto__`, cycles and whatever is nested deeper than 200.
 */
export function plainJson(value: unknown, lost: (path: string) => void): unknown {
  return plain(value, "", [], lost);
}

/** @param above the containers around the value, from the outside in */
function plain(value: unknown, path: string, above: object[], lost: (path: string) => void): unknown {
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
    // What is lost in a list becomes null, or what follows would shift.
    return Array.from(value, (item, index) => plain(item, `${path}[${index}]`, within, lost) ?? null);
  }
  const copy: Record<string, unknown> = {};
  for (const [key, item] of Object.entries(value)) {
    const place = path === "" ? key : `${path}.${key}`;
    if (key === "__proto__") lost(place);
    else {
      const plainItem = plain(item, place, within, lost);
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

/** A picture written as an address: `data:image/png;base64,iVBOR…`. */
const DATA_URL = /^data:([^;,]+)(?:;[^;,]+)*;base64,/i;

/** What a base64 `data:` address holds; undefined for every other address. */
export function parseDataUrl(url: string): { mimeType: string; data: string } | undefined {
  const beginning = DATA_URL.exec(url);
  return beginning ? { mimeType: beginning[1]!, data: url.slice(beginning[0].length) } : undefined;
}

/** The opposite of {@link parseDataUrl}. */
export function formatDataUrl(mimeType: string, data: string): string {
  return `data:${mimeType};base64,${data}`;
}
