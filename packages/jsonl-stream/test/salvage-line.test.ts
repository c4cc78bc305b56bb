import { parseLine, salvageLine } from "@espalier/jsonl-stream";
import fc from "fast-check";
import { describe, expect, test } from "vitest";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

/** Entries with what makes their text treacherous: brackets, quotes, backslashes and the marker itself in strings. */
const text = fc
  .array(fc.constantFrom("{", "}", "[", "]", '"', "\\", '{"type":', "a", "é", "\n"), { maxLength: 12 })
  .map((parts) => parts.join(""));
const entry = fc.record({
  type: fc.constantFrom("message", "label"),
  content: fc.array(fc.record({ type: fc.constant("text"), text }), { maxLength: 3 }),
  extra: fc.jsonValue({ maxDepth: 2 }),
});

const MARKER = '{"type":';

/** The slow and obvious way: every place where the marker stands, until the rest parses. */
function slowly(line: Uint8Array, marker: string): { start: number; value: unknown } | undefined {
  const latin1 = Buffer.from(line).toString("latin1");
  for (let start = latin1.indexOf(marker); start >= 0; start = latin1.indexOf(marker, start + 1)) {
    const parsed = parseLine(line.subarray(start));
    if (parsed.ok) return { start, value: parsed.value };
  }
  return undefined;
}

describe("salvaging a line", () => {
  test("finds a whole entry joined to a torn one, at any tear", () => {
    fc.assert(
      fc.property(entry, entry, fc.double({ min: 0, max: 1, noNaN: true }), (torn, whole, share) => {
        const first = bytes(JSON.stringify(torn));
        const head = first.subarray(0, Math.floor(share * (first.length - 1)));
        const line = Buffer.concat([head, bytes(JSON.stringify(whole))]);
        expect(salvageLine(line, MARKER)).toEqual({
          start: head.length,
          value: JSON.parse(JSON.stringify(whole)),
        });
      }),
      { numRuns: 500 },
    );
  });

  test("finds the same as trying every marker", () => {
    const parts = fc.constantFrom(
      '{"type":',
      '"a"',
      "}",
      "]",
      "[",
      '"',
      "\\",
      ",",
      "1",
      " ",
      "\r",
      "\t",
      "\u0000",
      "\u001f",
      "{",
      '{"type":1}',
    );
    fc.assert(
      fc.property(fc.array(parts, { maxLength: 14 }), (line) => {
        const glued = bytes(line.join(""));
        expect(salvageLine(glued, MARKER)).toEqual(slowly(glued, MARKER));
      }),
      { numRuns: 5_000 },
    );
  });

  test("can search for another marker", () => {
    expect(salvageLine(bytes('{"id":"a{"id":"b"}'), '{"id":')).toEqual({ start: 8, value: { id: "b" } });
    expect(salvageLine(bytes('{"id":"a{"id":"b"}'), MARKER)).toBeUndefined();
  });

  test("ignores invalid UTF-8 or NUL bytes before the entry", () => {
    const whole = bytes('{"type":"label"}');
    for (const head of [[0xe2, 0x82], [0, 0, 0], [0x22]]) {
      expect(salvageLine(Buffer.concat([new Uint8Array(head), whole]), MARKER)).toMatchObject({
        value: { type: "label" },
      });
    }
  });

  test("takes linear time for a hostile line", () => {
    const hostile = [
      '{"type":'.repeat(500_000),
      `${'{"type":'.repeat(500_000)}1}`,
      `${"\\".repeat(4_000_000)}"`,
      '\\"'.repeat(2_000_000),
      `${'{"type":"x'.repeat(200_000)}${"}".repeat(200_000)}`,
      "\u0000".repeat(50_000_000),
    ];
    // About 0.1 s; trying each of the markers would take hours.
    const found = hostile.map((line) => salvageLine(bytes(line), MARKER)?.value);
    expect(found).toEqual([undefined, { type: 1 }, undefined, undefined, undefined, undefined]);
  });
});
