import { contentEdit, readSpan, waitingItem, withoutPicture } from "@espalier/compaction";
import { EventType } from "@espalier/compaction/policies";
import {
  blockBytes,
  type ContentBlock,
  type ContextEdit,
  type ContextMessage,
  contentBlocks,
  contextEdit,
  formatCount,
  healedImage,
  isFailedAnswer,
  isPicture,
  type ProjectedEntry,
  type SessionContext,
} from "@espalier/session-tree";
import { imageSize } from "image-size";
import type { Session } from "./session.ts";

/** An image that was left out of the context before a request. The log still has it. */
export interface LeftOutPicture {
  /** Entry with the image. */
  entryId: string;
  /** Reason, such as `9000 pixels wide or high, of 8000 at most`. */
  reason: string;
}

/**
 * Leaves out images for which the provider would refuse the request: images that it never accepts, and the oldest ones
 * when there are too many, or too many bytes. This is done by edits: the log keeps the images, and no model is called.
 * When there are too many, only three quarters of the limit are kept, so that the next images leave the provider's
 * cache valid. Images that no model has read are kept as far as the limits allow.
 *
 * @param given limits that override those of the model's provider
 * @param bytes size of the whole request; 0 to apply only the limits of images
 * @param requestBytes maximum number of bytes of a request
 */
export async function leaveOutPictures(
  session: Session,
  given: Partial<PictureLimits> | undefined,
  bytes: number,
  requestBytes: number,
): Promise<LeftOutPicture[]> {
  const sent = session.requestContext;
  const out = refusedPictures(sent.messages, { ...pictureLimitsOf(sent.model), ...given });
  if (out.size === 0 && bytes <= requestBytes) return [];
  const sources = new Set(sent.sources);
  const span = readSpan(session.window.entries);
  const items = span.items.filter(({ entry }) => sources.has(entry.id));
  let freed = 0;
  for (const picture of out.keys()) freed += blockBytes(picture);
  const excess = excessBytes(bytes - freed, requestBytes);
  const why = `the request had more than ${requestBytes} bytes`;
  for (const picture of excessPictures(items, excess, waitingItem(span)))
    if (!out.has(picture)) out.set(picture, why);
  const edits = editsWithout(items, out);
  if (edits.length === 0) return [];
  await session.append(edits.map((edit) => contextEdit.of(edit)));
  const edited = new Set(edits.map(({ targetId }) => targetId));
  const told = items
    .filter(({ entry }) => edited.has(entry.id))
    .flatMap(({ entry: { id: entryId }, messages }) =>
      messages
        .flatMap(contentBlocks)
        .flatMap((block) => out.get(block) ?? [])
        .map((reason) => ({ entryId, reason })),
    );
  const reasons = [...new Set(told.map(({ reason }) => reason))];
  session.events.publish(EventType.STATE_CHANGED, {
    name: "session.pictures",
    data: { messages: edits.length, reasons },
  });
  return told;
}

/** Limits of a provider for images. */
export interface PictureLimits {
  /** Maximum number of pixels of the longer side. */
  side: number;
  /** Number of images in one request above which `manySide` applies. */
  manyOver: number;
  /** Maximum number of pixels of the longer side in a request with more than `manyOver` images. */
  manySide: number;
  /** Maximum number of images in one request. */
  count: number;
  /** Maximum number of characters of base64 of one image. */
  bytes: number;
}

/**
 * Limits of Anthropic: 8,000 px, 2,000 px with more than 20 images, and 100 images (its guide to vision; models with a
 * window of more than 200,000 tokens accept more), 5 MiB of base64 each (its error message: "image exceeds 5 MB
 * maximum"). No known limits are stricter, so they apply to unknown providers too.
 */
const STRICTEST: PictureLimits = { side: 8_000, manyOver: 20, manySide: 2_000, count: 100, bytes: 5_242_880 };

/** Limits of OpenAI, from its guide to images: 500 in a request, 20 MB each; large ones are scaled down. */
const OPENAI: PictureLimits = {
  side: Number.POSITIVE_INFINITY,
  manyOver: Number.POSITIVE_INFINITY,
  manySide: Number.POSITIVE_INFINITY,
  count: 500,
  bytes: 20_000_000,
};

const pictureLimitsOf = (model: SessionContext["model"]): PictureLimits =>
  model && /^(openai|azure)/.test(model.provider) ? OPENAI : STRICTEST;

/**
 * Share of a limit, in bytes or in images, that is kept when images are left out. It is less than 1, because each
 * removed image changes the prefix that the provider has cached: one or two new images must not cause a removal at
 * every request.
 */
const SHARE_KEPT = 0.75;

/** Returns the images that the provider would refuse, each with the reason; the oldest ones when there are too many. */
function refusedPictures(
  messages: readonly ContextMessage[],
  limits: PictureLimits,
): Map<ContentBlock, string> {
  const out = new Map<ContentBlock, string>();
  let pictures = messages.flatMap(contentBlocks).filter(isPicture);
  const leaveOut = (gone: readonly ContentBlock[], reason: string) => {
    for (const block of gone) out.set(block, reason);
    pictures = pictures.filter((block) => !out.has(block));
  };
  for (const block of pictures) {
    const reason = reasonAlone(block, limits);
    if (reason) out.set(block, reason);
  }
  pictures = pictures.filter((block) => !out.has(block));
  const { manyOver, manySide, count } = limits;
  const unseen = unseenPictures(messages);
  const areLarge = pictures.filter((block) => measured(block).side > manySide);
  if (pictures.length > manyOver && areLarge.length > 0) {
    const areNew = areLarge.some((block) => unseen.has(block));
    const room = Math.max(Math.floor(manyOver * SHARE_KEPT), Math.min(unseen.size, manyOver));
    if (areNew && unseen.size <= manyOver)
      leaveOut(pictures.slice(0, -room), `more than ${manyOver} images, one of them over ${manySide} pixels`);
    else leaveOut(areLarge, `over ${manySide} pixels, among more than ${manyOver} images`);
  }
  if (pictures.length > count) {
    const room = Math.max(Math.floor(count * SHARE_KEPT), Math.min(unseen.size, count));
    leaveOut(pictures.slice(0, -room), `more than ${count} images`);
  }
  return out;
}

function reasonAlone(block: ContentBlock, limits: PictureLimits): string | undefined {
  const { isReadable, bytes, side } = measured(block);
  if (!isReadable) return "not valid base64, or not a PNG, JPEG, GIF or WebP image";
  if (bytes > limits.bytes)
    return `${formatCount(bytes)} characters of base64, of ${formatCount(limits.bytes)} at most`;
  return side > limits.side ? `${side} pixels wide or high, of ${limits.side} at most` : undefined;
}

/** Returns the images after the last answer, which no model has read. */
function unseenPictures(messages: readonly ContextMessage[]): Set<ContentBlock> {
  const answered = messages.findLastIndex(
    (message) => message.role === "assistant" && !isFailedAnswer(message),
  );
  return new Set(
    messages
      .slice(answered + 1)
      .flatMap(contentBlocks)
      .filter(isPicture),
  );
}

const measures = new WeakMap<ContentBlock, { isReadable: boolean; bytes: number; side: number }>();

/**
 * Measures an image. `bytes`: length of its base64 text, 0 for an image at an address. `side`: pixels of the longer
 * side, 0 if unknown.
 */
function measured(block: ContentBlock) {
  const known = measures.get(block);
  if (known) return known;
  const image = block.type === "image" ? healedImage(block) : undefined;
  const measure =
    image?.type === "image"
      ? { isReadable: true, bytes: image.data.length, side: longerSide(image.data) }
      : { isReadable: block.type !== "image", bytes: 0, side: 0 };
  measures.set(block, measure);
  return measure;
}

/** Number of characters of base64 that almost always include the size of an image, even after a large profile. */
const HEAD = 262_144;

function longerSide(data: string): number {
  for (const head of data.length > HEAD ? [data.slice(0, HEAD), data] : [data]) {
    try {
      const { width, height } = imageSize(Buffer.from(head, "base64"));
      return Math.max(width, height);
    } catch {
      // This part does not have the size, or the image has none: the provider then decides.
    }
  }
  return 0;
}

/** Bytes of images to remove, so that a request has three quarters of `requestBytes`; 0 when it is not too large. */
export const excessBytes = (bytes: number, requestBytes: number): number =>
  bytes > requestBytes ? Math.ceil(bytes - SHARE_KEPT * requestBytes) : 0;

/**
 * Selects images with at least `excess` bytes together, or all candidates if they have fewer. The newest images stay if
 * they fit; those of a message that waits for its answer always stay.
 *
 * @param items items of the request, oldest first, edits applied
 * @param excess bytes; infinite for all images
 * @param waiting the item whose message has no answer yet
 */
function excessPictures(
  items: readonly ProjectedEntry[],
  excess: number,
  waiting?: ProjectedEntry,
): ContentBlock[] {
  if (excess <= 0) return [];
  const candidates = items.filter((item) => item !== waiting && canLose(item));
  const pictures = candidates.flatMap(({ messages }) => picturesOf(messages[0]!));
  let room = pictures.reduce((sum, picture) => sum + freedBy(picture), 0) - excess;
  const staying = new Set<ContentBlock>();
  for (const picture of pictures.toReversed()) {
    const bytes = freedBy(picture);
    if (bytes > room) continue;
    staying.add(picture);
    room -= bytes;
  }
  return pictures.filter((picture) => !staying.has(picture));
}

/** Returns edits that leave out {@link excessPictures}. The log keeps the originals. */
export function pictureEdits(
  items: readonly ProjectedEntry[],
  excess: number,
  waiting?: ProjectedEntry,
): ContextEdit[] {
  const out = excessPictures(items, excess, waiting);
  return editsWithout(items, new Map(out.map((picture) => [picture, ""])));
}

/**
 * Returns edits that leave out some images of a request.
 *
 * @param out images to leave out; each has a reason, which the model reads in place of the image, or an empty text for
 * no reason
 */
function editsWithout(
  items: readonly ProjectedEntry[],
  out: ReadonlyMap<ContentBlock, string>,
): ContextEdit[] {
  return items
    .filter((item) => canLose(item) && picturesOf(item.messages[0]!).some((picture) => out.has(picture)))
    .map(({ entry, messages }) => {
      const content = contentBlocks(messages[0]!).map((block) =>
        out.has(block) ? withoutPicture(block, out.get(block)) : block,
      );
      return contentEdit(entry.id, content);
    });
}

/** Roles of messages that can have images and whose content an edit can replace. */
const WITH_PICTURES: ReadonlySet<string> = new Set(["user", "custom", "toolResult"]);

const canLose = ({ messages }: ProjectedEntry): boolean =>
  messages.length === 1 && WITH_PICTURES.has(messages[0]!.role);
const picturesOf = (message: ContextMessage): ContentBlock[] => contentBlocks(message).filter(isPicture);

const freedBy = (picture: ContentBlock): number =>
  Math.max(0, blockBytes(picture) - blockBytes(withoutPicture(picture)));
