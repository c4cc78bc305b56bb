import { excessBytes, isByteOverflow, isContextOverflow, pictureEdits, readSpan } from "@espalier/compaction";
import {
  type ContentBlock,
  contentBlocks,
  contextEdit,
  type Entry,
  totalBytes,
} from "@espalier/session-tree";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { PathBuilder, text } from "./build-path.ts";

const picture = (bytes: number): ContentBlock => ({
  type: "image",
  data: "A".repeat(bytes),
  mimeType: "image/png",
});

/** The sizes of the pictures of a path, a list an item with something to say. */
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
function edited({ entries }: PathBuilder, excess: number, waiting?: number): Entry[] {
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
  test("keeps the newest pictures, and the text next to the others", () => {
    const path = new PathBuilder();
    for (let at = 0; at < 4; at++) path.user([text(`look ${at}`), picture(10_000)]);
    const after = edited(path, 15_000);
    expect(picturesOf(after)).toEqual([[], [], [10_000], [10_000]]);
    expect(JSON.stringify(readSpan(after).items[0]!.messages)).toMatch(/look 0.*\[image left out\]/);
  });

  test("does not keep an old small picture if a newer large one does not fit", () => {
    const path = new PathBuilder();
    path.user([picture(1_000)]);
    path.user([picture(90_000), picture(2_000)]);
    path.user([picture(3_000)]);
    expect(picturesOf(edited(path, 50_000))).toEqual([[1_000], [2_000], [3_000]]);
  });

  test("keeps pictures of the unanswered message, and removes those of results", () => {
    const path = new PathBuilder();
    const [call] = path.call([{ name: "screenshot", arguments: {} }]);
    path.result(call!, [picture(50_000)]);
    path.user([picture(50_000)]);
    expect(picturesOf(edited(path, Number.POSITIVE_INFINITY, 2))).toEqual([[], [], [50_000]]);
    expect(picturesOf(edited(path, Number.POSITIVE_INFINITY))).toEqual([[], [], []]);
  });

  test("property: enough bytes are removed, or all removable ones, with the fewest pictures", () => {
    const messages = fc.array(fc.array(fc.integer({ min: 100, max: 5_000 }), { maxLength: 3 }), {
      maxLength: 8,
    });
    fc.assert(
      fc.property(messages, fc.integer({ min: -10, max: 60_000 }), (sizes, excess) => {
        const path = new PathBuilder();
        for (const each of sizes) path.user([text("look"), ...each.map(picture)]);
        const after = edited(path, excess);
        const freed = bytesOf(path.entries) - bytesOf(after);
        const left = picturesOf(after).flat();
        if (left.length > 0) expect(freed).toBeGreaterThanOrEqual(Math.max(0, excess));
        if (excess <= 0) expect(after).toEqual(path.entries);
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

test("a refusal for bytes is recognised by the words of providers and proxies, and is an overflow", () => {
  const answer = (errorMessage: string, stopReason = "error") =>
    ({
      role: "assistant",
      content: [],
      provider: "p",
      model: "m",
      stopReason,
      errorMessage,
      timestamp: 0,
    }) as never;
  for (const words of ["413 request_too_large: no", "413 Request Entity Too Large", "Payload Too Large"]) {
    expect(isByteOverflow(answer(words)), words).toBe(true);
    expect(isContextOverflow(answer(words), 1_000), words).toBe(true);
    expect(isByteOverflow(answer(words, "aborted")), words).toBe(false);
  }
  expect(isByteOverflow(answer("prompt is too long: 200001 tokens > 200000 maximum"))).toBe(false);
});
