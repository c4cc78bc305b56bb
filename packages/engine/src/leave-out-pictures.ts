import {
  editsWithout,
  excessBytes,
  excessPictures,
  isPicture,
  readSpan,
  waitingItem,
} from "@espalier/compaction";
import { EventType } from "@espalier/policies";
import {
  blockBytes,
  type ContentBlock,
  type ContextMessage,
  contentBlocks,
  contextEdit,
  healedImage,
  isFailedAnswer,
  type SessionContext,
} from "@espalier/session-tree";
import { imageSize } from "image-size";
import type { SessionState } from "./session-state.ts";

/** The pictures that a provider takes. */
export interface PictureLimits {
  /** Pixels of the longer side. */
  side: number;
  /** So many pictures are many. */
  manyOver: number;
  /** Pixels of the longer side where a request has more than `manyOver` pictures. */
  manySide: number;
  /** Pictures in one request. */
  count: number;
  /** Characters of base64 of one picture. */
  bytes: number;
}

/**
 * Anthropic's: 8,000 px, 2,000 px where there are more than 20, and 100 pictures (its guide to vision; models with a window of
 * more than 200,000 tokens take more), 5 MiB of base64 each (its error message: "image exceeds 5 MB maximum"). Nobody's
 * are stricter, so they hold for providers that are not known here.
 */
const STRICTEST: PictureLimits = { side: 8_000, manyOver: 20, manySide: 2_000, count: 100, bytes: 5_242_880 };

/** OpenAI's guide to images: 500 in a request, 20 MB each; large ones are scaled down. */
const OPENAI: PictureLimits = {
  side: Number.POSITIVE_INFINITY,
  manyOver: Number.POSITIVE_INFINITY,
  manySide: Number.POSITIVE_INFINITY,
  count: 500,
  bytes: 20_000_000,
};

/** What the provider of a model takes. */
export const pictureLimitsOf = (model: SessionContext["model"]): PictureLimits =>
  model && /^(openai|azure)/.test(model.provider) ? OPENAI : STRICTEST;

/** A picture that was left out of the context before a request. The log has it. */
export interface LeftOutPicture {
  /** The entry that it stands in. */
  entryId: string;
  /** As `9000 pixels wide or high, of 8000 at most`. */
  reason: string;
}

/** What decides which pictures can be sent. */
export interface PictureBudget {
  limits: PictureLimits;
  /** Of the whole request. */
  bytes: number;
  /** The most bytes of a request. */
  requestBytes: number;
}

/**
 * Leaves pictures out that the provider would refuse the request for: those that it never takes, and the oldest where there
 * are too many, or too many bytes. By edits, so that the log keeps them and nothing is asked of a model. Where there are too
 * many, a quarter more go than have to, so that the next pictures change nothing of what the provider has cached. Pictures
 * that no model has seen stay, as far as the provider takes them.
 *
 * @param sent what the request is made of
 */
export async function leaveOutPictures(
  { core, events }: SessionState,
  sent: SessionContext,
  { limits, bytes, requestBytes }: PictureBudget,
): Promise<LeftOutPicture[]> {
  const refused = refusedPictures(sent.messages, limits);
  if (refused.size === 0 && bytes <= requestBytes) return [];
  const sources = new Set(sent.sources);
  const span = readSpan(core.window.entries);
  const items = span.items.filter(({ entry }) => sources.has(entry.id));
  let freed = 0;
  for (const picture of refused.keys()) freed += blockBytes(picture);
  const excess = excessBytes(bytes - freed, requestBytes);
  const out = new Map(refused);
  const why = `the request had more than ${requestBytes} bytes`;
  for (const picture of excessPictures(items, excess, waitingItem(span)))
    if (!out.has(picture)) out.set(picture, why);
  const edits = editsWithout(items, out);
  if (edits.length === 0) return [];
  await core.append(edits.map((edit) => contextEdit.of(edit)));
  const edited = new Set(edits.map(({ targetId }) => targetId));
  const told = items.flatMap(({ entry, messages }) =>
    edited.has(entry.id) ? reasonsIn(messages, out).map((reason) => ({ entryId: entry.id, reason })) : [],
  );
  const reasons = [...new Set(told.map(({ reason }) => reason))];
  events.publish(EventType.STATE_CHANGED, {
    name: "session.pictures",
    data: { messages: edits.length, reasons },
  });
  return told;
}

const blocksOf = (message: ContextMessage): ContentBlock[] => contentBlocks(message as { content?: unknown });

const reasonsIn = (messages: readonly ContextMessage[], out: ReadonlyMap<ContentBlock, string>): string[] =>
  messages.flatMap(blocksOf).flatMap((block) => out.get(block) ?? []);

/** What of the pictures is left where there are too many of them, so that the next ones are not too many again. */
const SHARE_KEPT = 0.75;

/** Pictures that the provider would refuse, each with the reason; the oldest where only some have to go. */
function refusedPictures(
  messages: readonly ContextMessage[],
  limits: PictureLimits,
): Map<ContentBlock, string> {
  const out = new Map<ContentBlock, string>();
  let pictures = picturesIn(messages);
  const leaveOut = (gone: readonly ContentBlock[], reason: string) => {
    for (const block of gone) out.set(block, reason);
    pictures = pictures.filter((block) => !out.has(block));
  };
  for (const block of pictures) {
    const reason = reasonAlone(block, limits);
    if (reason) out.set(block, reason);
  }
  leaveOut([], "");

  const { manyOver, manySide, count } = limits;
  const unseen = unseenPictures(messages);
  const areLarge = pictures.filter((block) => measured(block).side > manySide);
  if (pictures.length > manyOver && areLarge.length > 0) {
    const areNew = areLarge.some((block) => unseen.has(block));
    const room = Math.max(Math.floor(manyOver * SHARE_KEPT), Math.min(unseen.size, manyOver));
    if (areNew && unseen.size <= manyOver)
      leaveOut(
        pictures.slice(0, -room),
        `more than ${manyOver} pictures, one of them over ${manySide} pixels`,
      );
    else leaveOut(areLarge, `over ${manySide} pixels, among more than ${manyOver} pictures`);
  }
  if (pictures.length > count) {
    const room = Math.max(Math.floor(count * SHARE_KEPT), Math.min(unseen.size, count));
    leaveOut(pictures.slice(0, -room), `more than ${count} pictures`);
  }
  return out;
}

/** Why a picture cannot be sent, however few there are. */
function reasonAlone(block: ContentBlock, limits: PictureLimits): string | undefined {
  const { isReadable, bytes, side } = measured(block);
  if (!isReadable) return "no picture in base64 that models read";
  if (bytes > limits.bytes) return `${bytes} characters of base64, of ${limits.bytes} at most`;
  return side > limits.side ? `${side} pixels wide or high, of ${limits.side} at most` : undefined;
}

/** Pictures that stand behind the last answer: no model has seen them. */
function unseenPictures(messages: readonly ContextMessage[]): Set<ContentBlock> {
  const answered = messages.findLastIndex(
    (message) => message?.role === "assistant" && !isFailedAnswer(message),
  );
  return new Set(messages.slice(answered + 1).flatMap((message) => blocksOf(message).filter(isPicture)));
}

/** A list of messages that was looked at, as far as it went then. A running context grows at its end. */
interface Seen {
  messages: number;
  pictures: ContentBlock[];
}
const seen = new WeakMap<readonly ContextMessage[], Seen>();

/** The pictures of a list. Of one that has grown since, only what is new is looked at. */
function picturesIn(list: readonly ContextMessage[]): readonly ContentBlock[] {
  let { messages, pictures } = seen.get(list) ?? { messages: 0, pictures: [] };
  if (messages > list.length) [messages, pictures] = [0, []];
  for (; messages < list.length; messages++)
    for (const block of blocksOf(list[messages]!)) if (isPicture(block)) pictures.push(block);
  seen.set(list, { messages, pictures });
  return pictures;
}

/** What is known of a picture. */
interface Measured {
  isReadable: boolean;
  /** Characters of base64; 0 for one at an address. */
  bytes: number;
  /** Pixels of the longer side; 0 where nobody can tell. */
  side: number;
}
const measures = new WeakMap<ContentBlock, Measured>();

function measured(block: ContentBlock): Measured {
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

/** Characters of base64 in which the size of a picture nearly always stands; with a large profile before it, it does not. */
const HEAD = 262_144;

function longerSide(data: string): number {
  for (const head of data.length > HEAD ? [data.slice(0, HEAD), data] : [data]) {
    try {
      const { width, height } = imageSize(Buffer.from(head, "base64"));
      return Math.max(width, height);
    } catch {
      // Not in this part of it, or in none: a provider says what it thinks of such a picture.
    }
  }
  return 0;
}
