import {
  type ByteView,
  forEachLine,
  forEachLineBackward,
  LONGEST_PARSED,
  parseLine,
} from "@espalier/jsonl-stream";
import { expect, test } from "vitest";

const NEWLINE = 10;

/** A file of `size` bytes that exists nowhere: x, and a newline at the end of each run of `lineLength` bytes. */
function virtualView(size: number, lineLength: number): ByteView {
  const readInto = (offset: number, target: Uint8Array): number => {
    const count = Math.min(target.length, size - offset);
    target.fill(120, 0, count);
    for (let at = lineLength - 1 - (offset % lineLength); at < count; at += lineLength) target[at] = NEWLINE;
    return count;
  };
  const read = (offset: number, length: number): Uint8Array => {
    const bytes = new Uint8Array(Math.min(length, size - offset));
    readInto(offset, bytes);
    return bytes;
  };
  return { size, read, readInto };
}

test("a file longer than the longest string is walked in both directions, with exact offsets", () => {
  const lineLength = 1_000_003;
  const view = virtualView(lineLength * 600, lineLength);
  expect(view.size).toBeGreaterThan(LONGEST_PARSED);
  let expected = 0;
  forEachLine(view, (_block, start, end, offset, lineNumber) => {
    expect([offset, end - start, lineNumber]).toEqual([expected, lineLength - 1, offset / lineLength + 1]);
    expected += lineLength;
  });
  expect(expected).toBe(view.size);
  forEachLineBackward(view, (_block, start, end, offset) => {
    expected -= lineLength;
    expect([offset, end - start]).toEqual([expected, lineLength - 1]);
  });
  expect(expected).toBe(0);
});

test("offsets beyond 4 GiB are exact", () => {
  const lineLength = 1 << 20;
  const view = virtualView(5 * 2 ** 30, lineLength);
  const offsets: number[] = [];
  const from = view.size - 3 * lineLength;
  forEachLine(view, (_block, _start, _end, offset) => void offsets.push(offset), { from });
  forEachLineBackward(view, (_block, _start, _end, offset) => {
    offsets.push(offset);
    return offset > from && undefined;
  });
  const [one, two, three] = [from, from + lineLength, from + 2 * lineLength];
  expect(offsets).toEqual([one, two, three, three, two, one]);
});

test("a line of 100 MB takes linear time", () => {
  const size = 100_000_000;
  for (const walk of [forEachLine, forEachLineBackward]) {
    const inner = virtualView(size, size);
    const blocks = new Set<ArrayBufferLike>();
    const view: ByteView = {
      ...inner,
      readInto(offset, target) {
        blocks.add(target.buffer);
        return inner.readInto(offset, target);
      },
    };
    const lengths: number[] = [];
    walk(view, (_block, start, end) => void lengths.push(end - start));
    expect(lengths).toEqual([size - 1]);
    // Each block is copied into the next: a new one for each MiB would copy 5 GB.
    const copied = [...blocks].reduce((sum, { byteLength }) => sum + byteLength, 0);
    expect(copied).toBeLessThan(4 * size);
  }
});

test("a file without newlines is cut instead of filling the memory", () => {
  const view = virtualView(300_000_000, 300_000_000);
  const visited: (number | boolean)[] = [];
  const longest = 2_000_000;
  forEachLine(
    view,
    (block, start, end, offset, _lineNumber, terminated) => {
      visited.push(offset, end - start, terminated);
      expect(block.length).toBeLessThan(5_000_000);
    },
    { longest },
  );
  forEachLineBackward(
    view,
    (_block, start, end, offset, terminated) => {
      visited.push(offset, end - start, terminated);
    },
    { longest },
  );
  expect(visited).toEqual([0, longest, true, 0, longest, true]);
});

test("a line longer than the longest string is a problem, and does not crash", () => {
  const parsed = parseLine(new Uint8Array(LONGEST_PARSED + 1));
  expect(parsed).toMatchObject({ ok: false, problem: { kind: "too-long" } });
});
