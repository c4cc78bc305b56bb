import { checkJson, EspalierError, encodeLines, formatLine, LINE_LIMITS } from "@espalier/jsonl-stream";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { failure } from "./failure.ts";

const nested = (depth: number): unknown => {
  let value: unknown = [];
  for (let level = 1; level < depth; level += 1) value = level % 2 === 0 ? [value] : { value };
  return value;
};

/** Strings in which surrogates, escapes and what looks like an escape meet. */
const unit = fc.constantFrom(
  "\\",
  "\\u",
  "u",
  "d",
  "d800",
  "\ud800",
  "\udc00",
  "\udfff",
  "\ud83d\ude00",
  '"',
  "é",
  "a",
);
const treacherous = fc.array(unit, { maxLength: 10 }).map((parts) => parts.join(""));

/** What healing is: each string and key well formed, the last of equal keys kept. */
function healed(value: unknown): unknown {
  if (typeof value === "string") return value.toWellFormed();
  if (Array.isArray(value)) return value.map(healed);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key.toWellFormed(), healed(item)]));
}

describe("formatting a line", () => {
  test("is JSON.stringify for every JSON value", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const text = JSON.stringify(value);
        fc.pre(!text.includes('"__proto__":'));
        expect(formatLine(value)).toBe(text);
      }),
      { numRuns: 500 },
    );
  });

  test("replaces lone surrogates in strings and keys, and its text gives the same line again", () => {
    const value = fc.letrec((tie) => ({
      node: fc.oneof(
        treacherous,
        fc.array(tie("node"), { maxLength: 3 }),
        fc.dictionary(treacherous, tie("node"), { maxKeys: 4 }),
      ),
    })).node;
    fc.assert(
      fc.property(value, (item) => {
        const text = formatLine(item);
        expect(text.isWellFormed()).toBe(true);
        expect(JSON.parse(text)).toEqual(healed(item));
        expect(formatLine(JSON.parse(text))).toBe(text);
      }),
      { numRuns: 2_000 },
    );
  });

  test("writes keys that become equal by this once", () => {
    expect(formatLine({ "\ud800": 1, other: 2, "\udfff": 3 })).toBe('{"\ufffd":3,"other":2}');
  });

  test("leaves out keys with the value undefined, like JSON", () => {
    expect(formatLine({ a: undefined, b: 1 })).toBe('{"b":1}');
  });

  test("accepts objects without prototype and of another realm", async () => {
    const { runInNewContext } = await import("node:vm");
    expect(formatLine(Object.assign(Object.create(null), { a: 1 }))).toBe('{"a":1}');
    expect(formatLine(runInNewContext('({ a: [1, { b: "c" }] })'))).toBe('{"a":[1,{"b":"c"}]}');
  });

  test.each([
    ["a function", { a: { b: () => 1 } }, "a.b is a function"],
    ["a symbol", [Symbol("s")], "[0] is a symbol"],
    ["a big integer", { n: 1n }, "n is a bigint"],
    ["NaN", { usage: { input: Number.NaN } }, "usage.input is NaN"],
    ["Infinity", [[Number.NEGATIVE_INFINITY]], "[0][0] is -Infinity"],
    ["undefined in an array", { list: [1, undefined] }, "list[1] is undefined"],
    ["a hole in an array", { list: new Array(3) }, "list[0] is undefined"],
    ["nothing at all", undefined, "The value is undefined"],
    ["a Date", { "when it was": new Date(0) }, '["when it was"] is an instance of Date'],
    ["a Map", new Map(), "The value is an instance of Map"],
    ["bytes", { data: new Uint8Array(2) }, "data is an instance of Uint8Array"],
    ["an object of a class", { error: new RangeError("x") }, "error is an instance of RangeError"],
    ["an own toJSON", { toJSON: () => 1 }, "toJSON is a function"],
  ])("refuses %s and names its position", (_name, value, where) => {
    const error = failure(() => formatLine(value));
    expect(error.code).toBe("not-json");
    expect(error.message).toContain(where);
  });

  test("shows the beginning and the end of a long key path, in well-formed Unicode", () => {
    for (const before of ["a", "ab"]) {
      const { message } = failure(() => formatLine({ [`${before}${"😀".repeat(200)}`]: [undefined] }));
      expect(message).toMatch(/^\["ab?😀+.*….*😀"\]\[0\] is undefined/u);
      expect(message.isWellFormed()).toBe(true);
      expect(message.length).toBeLessThan(250);
    }
  });

  test("refuses an own __proto__ at any depth", () => {
    const error = failure(() => formatLine({ details: [JSON.parse('{"__proto__":{"admin":true}}')] }));
    expect(error.code).toBe("not-json");
    expect(error.message).toContain("details[0].__proto__");
  });

  test("has an exact depth limit, and does not overflow far beyond it", () => {
    expect(formatLine(nested(256))).toContain("[]");
    expect(failure(() => formatLine(nested(257))).code).toBe("too-deep");
    expect(failure(() => formatLine(nested(1_000_000))).code).toBe("too-deep");
    expect(formatLine(nested(300), { depth: 300 })).toContain("[]");
    expect(failure(() => formatLine({ a: 1, b: [{}] }, { depth: 2 })).message).toContain("b[0]");
  });

  test("refuses a cycle as too deep", () => {
    const cycle: Record<string, unknown> = {};
    cycle["self"] = cycle;
    expect(failure(() => checkJson(cycle)).code).toBe("too-deep");
  });

  test("has an exact length limit in bytes, not characters", () => {
    expect(formatLine("é".repeat(10), { bytes: 22 })).toHaveLength(12);
    expect(failure(() => formatLine("é".repeat(10), { bytes: 21 })).code).toBe("line-too-long");
    expect(formatLine("x".repeat(LINE_LIMITS.bytes - 2))).toHaveLength(16 * 1024 * 1024);
    expect(failure(() => formatLine("x".repeat(LINE_LIMITS.bytes - 1))).code).toBe("line-too-long");
    expect(failure(() => formatLine("\0".repeat(3_000_000))).code).toBe("line-too-long");
  });

  test("has an exact length limit for every JSON value, also for text that is mostly brackets", () => {
    fc.assert(
      fc.property(fc.jsonValue({ noUnicodeString: false }), (value) => {
        const text = JSON.stringify(value);
        fc.pre(!text.includes('"__proto__":') && text.isWellFormed());
        const bytes = Buffer.byteLength(text);
        expect(formatLine(value, { bytes })).toBe(text);
        expect(failure(() => formatLine(value, { bytes: bytes - 1 })).code).toBe("line-too-long");
      }),
      { numRuns: 200 },
    );
  });

  test("stops early at an object that is repeated again and again", () => {
    let value: unknown = { a: 1 };
    // 2^100 objects, to whoever looks at them all: this test would not end.
    for (let level = 0; level < 100; level += 1) value = [value, value];
    expect(failure(() => formatLine(value)).code).toBe("line-too-long");
  });

  test("writes every value that checkJson accepts under the length limit", () => {
    fc.assert(
      fc.property(
        fc.anything({ withBigInt: true, withDate: true, withMap: true, withSparseArray: true }),
        (value) => {
          const refused = (run: () => unknown): boolean => {
            try {
              run();
              return false;
            } catch (error) {
              expect(error).toBeInstanceOf(EspalierError);
              return true;
            }
          };
          expect(refused(() => checkJson(value))).toBe(refused(() => formatLine(value)));
        },
      ),
      { numRuns: 500 },
    );
  });
});

describe("encoding lines", () => {
  test("puts a newline after each line", () => {
    expect(Buffer.from(encodeLines(['{"a":"é"}', "[]"])).toString()).toBe('{"a":"é"}\n[]\n');
    expect(encodeLines([])).toHaveLength(0);
  });

  test("refuses a line that would be read as two", () => {
    expect(failure(() => encodeLines(["{}", "{\n}"])).code).toBe("invalid-entry");
  });
});
