import { skipSpace, skipValue } from "@espalier/jsonl-stream";
import fc from "fast-check";
import { expect, test } from "vitest";

/** Texts full of quotes and backslashes, short ones and long ones. */
const text = fc.oneof(
  fc.string({ unit: fc.constantFrom('"', "\\", "a", "]", "}"), maxLength: 120 }),
  fc.string({ unit: "binary", maxLength: 200 }),
  fc.tuple(fc.nat(200), fc.string({ maxLength: 9 })).map(([length, end]) => `${"x".repeat(length)}${end}`),
);

const { value } = fc.letrec((tie) => ({
  value: fc.oneof({ depthSize: "small" }, tie("leaf"), tie("list"), tie("object")),
  leaf: fc.oneof(text, fc.double({ noNaN: true, noDefaultInfinity: true }), fc.boolean(), fc.constant(null)),
  list: fc.array(tie("value"), { maxLength: 4 }),
  object: fc.dictionary(text, tie("value"), { maxKeys: 4 }),
}));

test("a value ends where its JSON ends, with any text after it", () => {
  fc.assert(
    fc.property(value, fc.constantFrom(",", "}", "]", ' "next"'), (given, behind) => {
      const json = new TextEncoder().encode(JSON.stringify(given));
      const bytes = new TextEncoder().encode(`  ${JSON.stringify(given)}${behind}"`);
      expect(skipSpace(bytes, 0, bytes.length)).toBe(2);
      expect(skipValue(bytes, 2, bytes.length)).toBe(2 + json.length);
    }),
    { numRuns: 500 },
  );
});

test("a truncated value has no end, even before a quote", () => {
  fc.assert(
    fc.property(value, fc.nat(1_000), (given, cut) => {
      const bytes = new TextEncoder().encode(`${JSON.stringify(given)}"",`);
      const length = bytes.length - 3;
      expect(skipValue(bytes, 0, cut % length)).toBe(-1);
    }),
    { numRuns: 500 },
  );
});
