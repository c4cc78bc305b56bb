import fc from "fast-check";
import stringWidth from "string-width";
import { expect, test } from "vitest";
import { wrapped } from "../src/markdown/markdown-look.ts";
import { columnsOf, cutToColumns } from "../src/text-columns.ts";

test("every character of the first plane takes as many columns as the library says, between others", () => {
  const differing: string[] = [];
  for (let code = 0; code < 0x10000; code++) {
    const text = `a${String.fromCharCode(code)}漢`;
    if (columnsOf(text) !== stringWidth(text)) differing.push(code.toString(16));
  }
  expect(differing).toEqual([]);
});

/** Texts of what is measured at once and of what melts: marks, emoji, families of them, jamo, flags, styles. */
const texts = fc
  .array(
    fc.oneof(
      fc.string({ unit: "grapheme", maxLength: 6 }),
      fc.string({ unit: "binary", maxLength: 4 }),
      fc.constantFrom(
        "é",
        "e\u0301",
        "漢字",
        "👩‍👩‍👧",
        "\u1100\u1161",
        "🇫🇷",
        "1\ufe0f\u20e3",
        "©\ufe0f",
        "─│",
        "\u001b[36mcode\u001b[39m",
      ),
    ),
  )
  .map((parts) => parts.join(""));

test("what is measured in pieces is as wide as the library says of the whole", () => {
  fc.assert(fc.property(texts, (text) => columnsOf(text) === stringWidth(text)));
});

test("what is cut fits, and what fits is not cut", () => {
  const plain = texts.map((text) => text.replaceAll(/[\u001b\u009b]/g, ""));
  fc.assert(
    fc.property(plain, fc.integer({ min: 1, max: 30 }), (text, columns) => {
      const cut = cutToColumns(text, columns);
      expect(stringWidth(cut)).toBeLessThanOrEqual(columns);
      if (stringWidth(text) <= columns) expect(cut).toBe(text);
    }),
  );
});

test("a tab within a text that is wrapped takes the columns that it is counted with", () => {
  for (const line of wrapped("one\ttwo three", 10)) expect(line).not.toContain("\t");
});
