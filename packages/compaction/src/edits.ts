import {
  blockBytes,
  type ContentBlock,
  type ContextEdit,
  type ContextMessage,
  contentBlocks,
  type ProjectedEntry,
} from "@espalier/session-tree";
import { cutText } from "@espalier/summarizer";
import type { CutItem } from "./cut.ts";
import { commonLimit } from "./settings.ts";

/** Results with fewer tokens are not shortened: their head and tail would be too short to be useful. */
const SMALLEST_RESULT = 100;

/**
 * Returns edits that reduce the kept messages by at least `excess` tokens: the largest tool results are cut to head and
 * tail, all to about the same size, and pictures are replaced by a word. The log keeps the originals. Empty when
 * nothing has to shrink. When the target cannot be reached, the edits reduce as much as possible.
 */
export function shrinkEdits(
  kept: readonly CutItem[],
  excess: number,
  estimate: (message: ContextMessage) => number,
): ContextEdit[] {
  if (excess <= 0) return [];
  const candidates = kept.flatMap(({ entry, messages }) => {
    const [message] = messages;
    return messages.length === 1 && message && canShrink(message)
      ? [{ id: entry.id, message, tokens: estimate(message) }]
      : [];
  });
  const sizes = candidates.map(({ tokens }) => tokens);
  let wanted = excess;
  let limit = Math.max(SMALLEST_RESULT, commonLimit(sizes, wanted));
  // A cut adds a mark, and an estimator need not be linear: repeat until the size fits or nothing more can be removed.
  for (;;) {
    const edits = candidates
      .filter(({ tokens }) => tokens > limit)
      .map(({ id, message, tokens }) => {
        const content = shrunk(message, limit, estimate);
        return { edit: editOf(id, content), freed: tokens - estimate(withContent(message, content)) };
      });
    const freed = edits.reduce((sum, { freed }) => sum + freed, 0);
    if (freed >= excess || limit <= SMALLEST_RESULT)
      return edits.flatMap(({ edit, freed }) => (freed > 0 ? [edit] : []));
    wanted += excess - freed;
    limit = Math.max(SMALLEST_RESULT, Math.floor(Math.min(limit * 0.95, commonLimit(sizes, wanted))));
  }
}

const editOf = (targetId: string, content: ContentBlock[]): ContextEdit => ({
  targetId,
  replacement: { content } as NonNullable<ContextEdit["replacement"]>,
});

/** Returns whether a message can be shortened; only tool results and pictures can. */
function canShrink(message: ContextMessage): boolean {
  if (message.role === "toolResult") return true;
  return (
    (message.role === "user" || message.role === "custom") &&
    contentBlocks(message).some(({ type }) => type === "image")
  );
}

function shrunk(message: ContextMessage, limit: number, estimate: (message: ContextMessage) => number) {
  const words = contentBlocks(message).map(withoutImage);
  if (message.role !== "toolResult") return words;
  // A share of the characters is about the same share of the size for every estimator.
  const share = limit / Math.max(1, estimate(withContent(message, words)));
  return share >= 1 ? words : words.map((block) => shortened(block, share));
}

const withContent = (message: ContextMessage, content: ContentBlock[]) =>
  ({ ...message, content }) as ContextMessage;

const shortened = (block: ContentBlock, share: number): ContentBlock =>
  block.type === "text"
    ? { ...block, text: cutText(block.text, Math.floor(block.text.length * share), "head-tail") }
    : block;

const LEFT_OUT_IMAGE = "[image left out]";

/** A picture in the message itself, or at an address (`imageUrl`, as `@espalier/interop` stores it). */
export const isPicture = ({ type }: { type: string }): boolean => type === "image" || type === "imageUrl";

const withoutImage = (block: ContentBlock): ContentBlock =>
  isPicture(block) ? { type: "text", text: LEFT_OUT_IMAGE } : block;

/**
 * Share of a request's bytes that is kept when pictures are left out. It is less than 1, because each removed picture
 * changes the prefix that the provider has cached: one or two new pictures must not cause a removal at every request.
 */
const SHARE_KEPT = 0.75;

/** Bytes of pictures to remove from a request of this size; 0 when it is not too large. */
export const excessBytes = (bytes: number, requestBytes: number): number =>
  bytes > requestBytes ? Math.ceil(bytes - SHARE_KEPT * requestBytes) : 0;

/**
 * Selects pictures of at least `excess` bytes, if there are as many. The newest pictures stay if they fit; those of a
 * message that waits for its answer always stay.
 *
 * @param items items of the request, oldest first, edits applied
 * @param excess bytes; infinite for all pictures
 * @param waiting the item whose message has no answer yet
 */
export function excessPictures(
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
 * Returns edits that leave out some pictures of a request.
 *
 * @param out pictures to leave out; each has a reason, which the model reads in place of the picture, or an empty text
 * for no reason
 */
export function editsWithout(
  items: readonly ProjectedEntry[],
  out: ReadonlyMap<ContentBlock, string>,
): ContextEdit[] {
  return items
    .filter((item) => canLose(item) && picturesOf(item.messages[0]!).some((picture) => out.has(picture)))
    .map(({ entry, messages }) => {
      const content = contentBlocks(messages[0]!).map((block): ContentBlock => {
        const why = out.get(block);
        if (why === undefined) return block;
        return why === "" ? withoutImage(block) : { type: "text", text: `[image left out: ${why}]` };
      });
      return editOf(entry.id, content);
    });
}

/** Roles of messages that can have pictures and whose content an edit can replace. */
const WITH_PICTURES: ReadonlySet<string> = new Set(["user", "custom", "toolResult"]);

const canLose = ({ messages }: ProjectedEntry): boolean =>
  messages.length === 1 && WITH_PICTURES.has(messages[0]!.role);
const picturesOf = (message: ContextMessage): ContentBlock[] => contentBlocks(message).filter(isPicture);

const freedBy = (picture: ContentBlock): number =>
  Math.max(0, blockBytes(picture) - blockBytes(withoutImage(picture)));
