import { readSpan } from "@espalier/compaction";
import {
  type ContentBlock,
  contentBlocks,
  contextEdit,
  type Entry,
  message,
  type StoredMessage,
  totalBytes,
} from "@espalier/session-tree";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { excessBytes, pictureEdits } from "../src/session/pictures.ts";

const text = (value: string): ContentBlock => ({ type: "text", text: value });
const picture = (bytes: number): ContentBlock => ({
  type: "image",
  data: "A".repeat(bytes),
  mimeType: "image/png",
});

const user = (...content: ContentBlock[]) => ({ role: "user", content }) as StoredMessage;
const call = { type: "toolCall", id: "call", name: "screenshot", arguments: {} };
const asking = { role: "assistant", content: [call], stopReason: "toolUse" } as unknown as StoredMessage;
const result = (...content: ContentBlock[]) =>
  ({
    role: "toolResult",
    toolCallId: "call",
    toolName: "screenshot",
    content,
    isError: false,
  }) as StoredMessage;

/** The entries of a path with these messages. */
const pathOf = (...messages: readonly StoredMessage[]): Entry[] =>
  messages.map((said, at) => {
    const place = { id: `e${at}`, parentId: at === 0 ? null : `e${at - 1}`, timestamp: "" };
    return { ...message.of({ message: said }), ...place } as Entry;
  });

/** The sizes of the images of a path, a list an item with something to say. */
function picturesOf(entries: readonly Entry[]): number[][] {
  return readSpan(entries).items.flatMap(({ messages }) =>
    messages.map((message) =>
      contentBlocks(message as { content?: unknown }).flatMap((block) =>
        block.type === "image" ? [block.data.length] : [],
      ),
    ),
  );
}

const bytesOf = (entries: readonly Entry[]): number =>
  totalBytes(readSpan(entries).items.flatMap(({ messages }) => messages));

/** A path with its edits on it. */
function edited(entries: readonly Entry[], excess: number, waiting?: number): Entry[] {
  const { items } = readSpan(entries);
  const edits = pictureEdits(items, excess, waiting === undefined ? undefined : items[waiting]);
  return [
    ...entries,
    ...edits.map(
      (edit, at) => ({ id: `x${at}`, parentId: null, timestamp: "", ...contextEdit.of(edit) }) as Entry,
    ),
  ];
}

describe("a request with too many bytes", () => {
  test("keeps the newest images, and the text next to the others", () => {
    const path = pathOf(...[0, 1, 2, 3].map((at) => user(text(`look ${at}`), picture(10_000))));
    const after = edited(path, 15_000);
    expect(picturesOf(after)).toEqual([[], [], [10_000], [10_000]]);
    expect(JSON.stringify(readSpan(after).items[0]!.messages)).toMatch(/look 0.*\[image left out\]/);
  });

  test("does not keep an old small image if a newer large one does not fit", () => {
    const path = pathOf(user(picture(1_000)), user(picture(90_000), picture(2_000)), user(picture(3_000)));
    expect(picturesOf(edited(path, 50_000))).toEqual([[1_000], [2_000], [3_000]]);
  });

  test("keeps images of the unanswered message, and removes those of results", () => {
    const path = pathOf(asking, result(picture(50_000)), user(picture(50_000)));
    expect(picturesOf(edited(path, Number.POSITIVE_INFINITY, 2))).toEqual([[], [], [50_000]]);
    expect(picturesOf(edited(path, Number.POSITIVE_INFINITY))).toEqual([[], [], []]);
  });

  test("property: enough bytes are removed, or all removable ones, with the fewest images", () => {
    const messages = fc.array(fc.array(fc.integer({ min: 100, max: 5_000 }), { maxLength: 3 }), {
      maxLength: 8,
    });
    fc.assert(
      fc.property(messages, fc.integer({ min: -10, max: 60_000 }), (sizes, excess) => {
        const path = pathOf(...sizes.map((each) => user(text("look"), ...each.map(picture))));
        const after = edited(path, excess);
        const freed = bytesOf(path) - bytesOf(after);
        const left = picturesOf(after).flat();
        if (left.length > 0) expect(freed).toBeGreaterThanOrEqual(Math.max(0, excess));
        if (excess <= 0) expect(after).toEqual(path);
        // None of those that went could have stayed besides those that did.
        const gone = sizes.flat().sort((a, b) => a - b);
        for (const size of left) gone.splice(gone.indexOf(size), 1);
        if (excess > 0 && gone[0] !== undefined) expect(freed - gone[0]).toBeLessThan(excess);
      }),
      { numRuns: 300 },
    );
  });

  test("removes nothing up to the limit, and a quarter of the limit above it", () => {
    expect(excessBytes(1_000, 1_000)).toBe(0);
    expect(excessBytes(1_001, 1_000)).toBe(251);
  });
});
