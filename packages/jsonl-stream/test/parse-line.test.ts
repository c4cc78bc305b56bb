import { parseLine } from "@espalier/jsonl-stream";
import fc from "fast-check";
import { describe, expect, test } from "vitest";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const kindOf = (line: Uint8Array): string => {
  const parsed = parseLine(line);
  return parsed.ok ? "ok" : parsed.problem.kind;
};

describe("parsing a line", () => {
  test("gives the value of any JSON text", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const text = JSON.stringify(value);
        expect(parseLine(bytes(text))).toEqual({ ok: true, value: JSON.parse(text) });
      }),
    );
  });

  test("ignores a byte order mark, a CR and a newline", () => {
    for (const text of ["\ufeff[1]", "[1]\r", "[1]\r\n", "\ufeff[1]\r\n"]) {
      expect(parseLine(bytes(text))).toEqual({ ok: true, value: [1] });
    }
  });

  test("accepts a replacement character, and refuses invalid bytes", () => {
    const strict = new TextDecoder("utf-8", { fatal: true });
    const isText = (line: Uint8Array): boolean => {
      try {
        return strict.decode(line) !== undefined;
      } catch {
        return false;
      }
    };
    const piece = fc.oneof(
      fc.constantFrom("\ufffd", "é", "漢", "🙂", "a").map(bytes),
      fc.uint8Array({ minLength: 1, maxLength: 3, min: 0x80 }),
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 6 }), (pieces) => {
        const line = Uint8Array.from([0x22, ...pieces.flatMap((each) => [...each]), 0x22]);
        const told = isText(line) ? { ok: true, value: strict.decode(line).slice(1, -1) } : { ok: false };
        expect(parseLine(line)).toMatchObject(told);
      }),
      { numRuns: 1_000 },
    );
  });

  test("accepts U+2028 inside a string like any other character", () => {
    expect(parseLine(bytes('"a\u2028b"'))).toEqual({ ok: true, value: "a\u2028b" });
  });

  test("names the problem", () => {
    expect(kindOf(bytes(""))).toBe("blank");
    expect(kindOf(bytes(" \t\r"))).toBe("blank");
    expect(kindOf(bytes("\ufeff"))).toBe("blank");
    expect(kindOf(bytes('{"a":'))).toBe("invalid-json");
    expect(kindOf(bytes('{"a":1}{"b":2}'))).toBe("invalid-json");
    expect(kindOf(new Uint8Array([0x22, 0xff, 0x22]))).toBe("invalid-utf8");
    expect(kindOf(new Uint8Array([0x22, 0xed, 0xa0, 0x80, 0x22]))).toBe("invalid-utf8");
    expect(kindOf(new Uint8Array(5))).toBe("nul-bytes");
    expect(kindOf(bytes('\0\0{"a":1}'))).toBe("nul-bytes");
  });

  test("never quotes the line in a problem", () => {
    const secret = "hunter2";
    const lines = [`{"key":"${secret}"`, `${secret}`, `{"key":"${secret}\0"}`, `{"${secret}":}`];
    for (const line of lines) {
      const parsed = parseLine(bytes(line));
      expect(parsed.ok).toBe(false);
      expect(JSON.stringify(parsed)).not.toContain(secret);
    }
  });

  test("accepts a depth of a million", () => {
    expect(kindOf(bytes("[".repeat(1_000_000) + "]".repeat(1_000_000)))).toBe("ok");
  });
});
