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
