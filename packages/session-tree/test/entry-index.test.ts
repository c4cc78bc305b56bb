import { EntryIndex } from "@espalier/session-tree";
import fc from "fast-check";
import { expect, test } from "vitest";

const GIB = 2 ** 30;

/** The offsets that an index tells of rows that were added at these. */
function kept(offsets: readonly number[]): number[] {
  const index = new EntryIndex();
  for (const [row, offset] of offsets.entries()) {
    index.add(index.rowOf(String(row)), row - 1, 1, offset, 1);
  }
  return offsets.map((_, row) => index.offset(row));
}

test("every row keeps its offset, at any distance between the lines of a log", () => {
  const distance = fc.oneof(fc.integer({ min: 1, max: 4_096 }), fc.integer({ min: 1, max: 9 * GIB }));
  fc.assert(
    fc.property(fc.array(distance, { maxLength: 200 }), (distances) => {
      const offsets: number[] = [];
      for (const bytes of distances) offsets.push((offsets.at(-1) ?? 0) + bytes);
      expect(kept(offsets)).toEqual(offsets);
    }),
  );
});

test("rows before and after each multiple of 4 GiB are distinguished", () => {
  const offsets = [0, 4 * GIB - 1, 4 * GIB, 12 * GIB - 1, 12 * GIB];
  expect(kept(offsets)).toEqual(offsets);
});
