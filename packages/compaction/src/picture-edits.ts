import {
  blockBytes,
  type ContentBlock,
  type ContextEdit,
  type ContextMessage,
  contentBlocks,
  type ProjectedEntry,
} from "@espalier/session-tree";

/** What stands in place of a picture that is left out. */
const LEFT_OUT_IMAGE = "[image left out]";

/** A picture, in the message itself or (`imageUrl`, as `@espalier/interop` keeps it) at an address. */
export const isPicture = ({ type }: { type: string }): boolean => type === "image" || type === "imageUrl";

/** A picture's place becomes a word; every other block stays. */
export const withoutImage = (block: ContentBlock): ContentBlock =>
  isPicture(block) ? { type: "text", text: LEFT_OUT_IMAGE } : block;

/**
 * What of a request's bytes stays when pictures are left out. Less than all of them: each picture that goes changes what
 * the provider has cached, and one or two new ones must not make the next ones go with every request.
 */
const SHARE_KEPT = 0.75;

/** Bytes of pictures that have to go from a request of this size; 0 when it is not too large. */
export const excessBytes = (bytes: number, requestBytes: number): number =>
  bytes > requestBytes ? Math.ceil(bytes - SHARE_KEPT * requestBytes) : 0;

/**
 * Pictures of at least `excess` bytes, if there are as many: the newest stay, as far as they fit, and those of a message that
 * waits for its answer stay in any case.
 *
 * @param items what a request is made of, oldest first, edits applied
 * @param excess bytes; infinite for all pictures
 * @param waiting the item whose message waits
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

/** Edits that leave out {@link excessPictures}. The log keeps the originals. */
export function pictureEdits(
  items: readonly ProjectedEntry[],
  excess: number,
  waiting?: ProjectedEntry,
): ContextEdit[] {
  const out = excessPictures(items, excess, waiting);
  return editsWithout(items, new Map(out.map((picture) => [picture, ""])));
}

/**
 * Edits that leave out some pictures of what a request is made of.
 *
 * @param out each with a word on why, which the model reads in its place; none where it is empty
 */
export function editsWithout(
  items: readonly ProjectedEntry[],
  out: ReadonlyMap<ContentBlock, string>,
): ContextEdit[] {
  return items
    .filter((item) => canLose(item) && picturesOf(item.messages[0]!).some((picture) => out.has(picture)))
    .map(({ entry, messages }) => {
      const content = blocksOf(messages[0]!).map((block) => {
        const why = out.get(block);
        if (why === undefined) return block;
        return why === "" ? withoutImage(block) : { type: "text", text: `[image left out: ${why}]` };
      });
      return { targetId: entry.id, replacement: { content } as NonNullable<ContextEdit["replacement"]> };
    });
}

/** Roles that carry pictures and whose content an edit replaces. */
const WITH_PICTURES: ReadonlySet<string> = new Set(["user", "custom", "toolResult"]);

const canLose = ({ messages }: ProjectedEntry): boolean =>
  messages.length === 1 && WITH_PICTURES.has(messages[0]!.role);

const blocksOf = (message: ContextMessage): ContentBlock[] => contentBlocks(message as { content?: unknown });

const picturesOf = (message: ContextMessage): ContentBlock[] => blocksOf(message).filter(isPicture);

/** Bytes that a request is smaller by without a picture. */
const freedBy = (picture: ContentBlock): number =>
  Math.max(0, blockBytes(picture) - blockBytes(withoutImage(picture)));
