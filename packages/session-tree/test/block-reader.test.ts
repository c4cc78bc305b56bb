import { type ByteView, bytesView } from "@espalier/jsonl-stream";
import { Tree } from "@espalier/session-tree";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { HEADER } from "./arbitrary-log.ts";

const line = (id: number, size: number) =>
  `{"type":"message","id":"e${id}","parentId":${id === 0 ? null : `"e${id - 1}"`},"message":{"role":"user","content":"${"é".repeat(size)}"}}`;

/** A view that counts the calls by which it is read. */
function counted(bytes: Uint8Array): ByteView & { calls: number } {
  const view = bytesView(bytes);
  return {
    calls: 0,
    size: view.size,
    read(offset, length) {
      this.calls++;
      return view.read(offset, length);
    },
    readInto: view.readInto,
  };
}

const logOf = (sizes: readonly number[]) =>
  Buffer.from(`${[HEADER, ...sizes.map((size, id) => line(id, size))].join("\n")}\n`);

describe("the lines of a tree", () => {
  test("equal those of the log, read in any order, and stay the same when other lines are read", () => {
    const sizes = fc.array(fc.constantFrom(0, 1, 900, 70_000, 140_000), { minLength: 1, maxLength: 12 });
    const order = fc.array(fc.nat(11), { maxLength: 30 });
    fc.assert(
      fc.property(sizes, order, (each, rows) => {
        const tree = new Tree(bytesView(logOf(each)));
        const read = rows.map((row) => ({ row: row % each.length, bytes: tree.bytesAt(row % each.length) }));
        for (const { row, bytes } of read) expect(Buffer.from(bytes).toString()).toBe(line(row, each[row]!));
      }),
      { numRuns: 60 },
    );
  });

  test("are read in blocks by a walk in either direction, and one by one by random access", () => {
    const count = 2_000;
    const view = counted(logOf(Array.from({ length: count }, () => 400)));
    const tree = new Tree(view);
    const callsOf = (rows: readonly number[]) => {
      const before = view.calls;
      for (const row of rows) tree.bytesAt(row);
      return view.calls - before;
    };
    const rows = Array.from({ length: count }, (_, row) => row);
    expect(callsOf(rows)).toBeLessThan(20);
    expect(callsOf(rows.toReversed())).toBeLessThan(20);
    expect(callsOf([5, 1_900, 700, 1_500])).toBe(4);
  });
});
