import {
  type ByteView,
  bytesView,
  type ForwardOptions,
  forEachLine,
  forEachLineBackward,
  type ScanOptions,
  scanLines,
} from "@espalier/jsonl-stream";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { latin1, type NaiveLine, naiveLines } from "./naive-lines.ts";

type Found = Omit<NaiveLine, "length" | "lineNumber">;

const found = ({ offset, content, terminated }: NaiveLine): Found => ({ offset, content, terminated });

function forward(view: ByteView, options: ForwardOptions = {}): { lines: Found[]; numbers: number[] } {
  const lines: Found[] = [];
  const numbers: number[] = [];
  const note = (
    block: Uint8Array,
    start: number,
    end: number,
    offset: number,
    lineNumber: number,
    terminated: boolean,
  ): void => {
    lines.push({ offset, content: latin1(block.subarray(start, end)), terminated });
    numbers.push(lineNumber);
  };
  forEachLine(view, note, options);
  return { lines, numbers };
}

function backward(view: ByteView, options: ScanOptions = {}): Found[] {
  const lines: Found[] = [];
  const note = (block: Uint8Array, start: number, end: number, offset: number, terminated: boolean): void => {
    lines.push({ offset, content: latin1(block.subarray(start, end)), terminated });
  };
  forEachLineBackward(view, note, options);
  return lines;
}

/** A view that counts the bytes read through it. */
function countingView(bytes: Uint8Array): ByteView & { bytesRead: number } {
  const inner = bytesView(bytes);
  return {
    ...inner,
    bytesRead: 0,
    readInto(offset, target) {
      const count = inner.readInto(offset, target);
      this.bytesRead += count;
      return count;
    },
  };
}

/** What files are made of: much of what is special to lines, in any order, with or without a newline at the end. */
const piece = fc.constantFrom(
  "\n",
  "\n",
  "\r\n",
  "\r",
  "\xef\xbb\xbf",
  "\0",
  "\xe2\x80\xa8",
  "",
  "a",
  '{"a":1}',
  "é",
  "0123456789",
  "x".repeat(40),
);
const file = fc.array(piece, { maxLength: 40 }).map((pieces) => Buffer.from(pieces.join(""), "latin1"));
const blockSize = fc.integer({ min: 1, max: 64 });

describe("walking lines", () => {
  test("finds the same lines forward and backward as a naive reader, for every block size", () => {
    fc.assert(
      fc.property(file, blockSize, (bytes, size) => {
        const wanted = naiveLines(bytes);
        const { lines, numbers } = forward(bytesView(bytes), { blockSize: size });
        expect(lines).toEqual(wanted.map(found));
        expect(numbers).toEqual(wanted.map((line) => line.lineNumber));
        expect(backward(bytesView(bytes), { blockSize: size })).toEqual(wanted.map(found).reverse());
      }),
      { numRuns: 2_000 },
    );
  });

  test("finds the same lines in the generator, with the length for reading a line again", () => {
    fc.assert(
      fc.property(file, blockSize, (bytes, size) => {
        const view = bytesView(bytes);
        const wanted = naiveLines(bytes);
        const ahead = [...mapped(scanLines(view, { blockSize: size }))];
        expect(ahead).toEqual(wanted);
        for (const { offset, length } of ahead) {
          const stored = latin1(view.read(offset, length));
          expect(latin1(bytes).slice(offset).startsWith(stored)).toBe(true);
          expect(stored).not.toContain("\n");
        }
      }),
      { numRuns: 500 },
    );
  });

  test("reads each byte once in either direction", () => {
    fc.assert(
      fc.property(file, blockSize, (bytes, size) => {
        const ahead = countingView(bytes);
        forEachLine(ahead, () => {}, { blockSize: size });
        expect(ahead.bytesRead).toBe(bytes.length);
        const back = countingView(bytes);
        forEachLineBackward(back, () => {}, { blockSize: size });
        expect(back.bytesRead).toBe(bytes.length);
      }),
    );
  });

  test("gives the lines in a range between line boundaries, with offsets of the whole view", () => {
    fc.assert(
      fc.property(file, blockSize, fc.nat(), fc.nat(), (bytes, size, one, other) => {
        const starts = [...naiveLines(bytes).map((line) => line.offset), bytes.length];
        const [from, to] = [one % starts.length, other % starts.length]
          .sort((a, b) => a - b)
          .map((at) => starts[at]!);
        const wanted = naiveLines(bytes.subarray(from, to), undefined, from).map(found);
        const { lines, numbers } = forward(bytesView(bytes), {
          from: from!,
          to: to!,
          blockSize: size,
          lineNumber: 7,
        });
        expect(lines).toEqual(wanted);
        expect(numbers).toEqual(wanted.map((_, index) => index + 7));
      }),
    );
  });

  test("cuts a line beyond `longest` to its beginning, and gives the lines around it whole", () => {
    fc.assert(
      fc.property(
        file,
        fc.integer({ min: 1, max: 8 }),
        fc.integer({ min: 1, max: 30 }),
        (bytes, size, longest) => {
          const wanted = naiveLines(bytes, Math.max(longest, size)).map(found);
          expect(forward(bytesView(bytes), { blockSize: size, longest }).lines).toEqual(wanted);
          expect(backward(bytesView(bytes), { blockSize: size, longest })).toEqual(wanted.reverse());
        },
      ),
      { numRuns: 1_000 },
    );
  });

  test("stops at false, and backward reads little more than the last lines", () => {
    const bytes = Buffer.from("0123456789\n".repeat(10_000));
    const seen: number[] = [];
    forEachLine(bytesView(bytes), (_block, _start, _end, _offset, lineNumber) => {
      seen.push(lineNumber);
      return lineNumber === 3 ? false : undefined;
    });
    expect(seen).toEqual([1, 2, 3]);
    const view = countingView(bytes);
    let lines = 0;
    forEachLineBackward(view, () => (++lines === 5 ? false : undefined), { blockSize: 100 });
    expect(lines).toBe(5);
    expect(view.bytesRead).toBe(100);
  });

  test("ignores a byte order mark only at the beginning of the file, and the offset is that of the line", () => {
    const bytes = Buffer.from("\ufeffone\n\ufefftwo\n");
    expect(forward(bytesView(bytes)).lines.map((line) => line.offset)).toEqual([0, 7]);
    expect(forward(bytesView(bytes)).lines.map((line) => line.content)).toEqual(["one", "\xef\xbb\xbftwo"]);
  });

  test("reports a view that ends before its size as shrunk", () => {
    const short: ByteView = { ...bytesView(Buffer.from("a\nb\n")), size: 100 };
    expect(() => forward(short)).toThrow(expect.objectContaining({ code: "shrunk" }));
    expect(() => backward(short)).toThrow(expect.objectContaining({ code: "shrunk" }));
  });
});

function* mapped<L extends { bytes: Uint8Array }>(
  lines: Iterable<L>,
): Generator<Omit<L, "bytes"> & { content: string }> {
  for (const { bytes, ...line } of lines) yield { ...line, content: latin1(bytes) };
}
