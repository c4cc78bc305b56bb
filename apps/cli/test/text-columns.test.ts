import { drawTree, graphemes } from "@espalier/session-tree";
import { growTree } from "@espalier/session-tree/testing";
import fc from "fast-check";
import stringWidth from "string-width";
import { expect, test } from "vitest";
import { wrapText } from "../src/markdown/markdown.ts";
import { aroundMatch, columnsOf, cutToColumns } from "../src/text.ts";

test("every character of the first plane has the width of the library, between other characters", () => {
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

test("a text measured in pieces has the width that the library gives for the whole", () => {
  fc.assert(fc.property(texts, (text) => columnsOf(text) === stringWidth(text)));
});

test("a cut text fits, and a text that fits is not cut", () => {
  const plain = texts.map((text) => text.replaceAll(/[\u001b\u009b]/g, ""));
  fc.assert(
    fc.property(plain, fc.integer({ min: 1, max: 30 }), (text, columns) => {
      const cut = cutToColumns(text, columns);
      expect(stringWidth(cut)).toBeLessThanOrEqual(columns);
      if (stringWidth(text) <= columns) expect(cut).toBe(text);
    }),
  );
});

test("a text cut around a match fits, and shows the match, also between wide characters", () => {
  const plain = texts.map((text) => text.replaceAll(/[\u001b\u009b]/g, ""));
  fc.assert(
    fc.property(plain, plain, fc.integer({ min: 12, max: 40 }), (before, after, columns) => {
      const cut = aroundMatch(`${before} 등대 ${after}`, "등대", columns);
      expect(columnsOf(cut)).toBeLessThanOrEqual(columns);
      expect(cut).toContain("등대");
    }),
  );
  expect(aroundMatch(`${"한국어 ".repeat(9)}등대`, "등대", 24)).toBe("… 한국어 등대");
  expect(aroundMatch("nothing of that kind is here", "등대", 12)).toBe("nothing of …");
});

test.each([
  ["emoji", "😀"],
  ["families", "👩‍👩‍👧‍👦"],
  ["flags", "🇩🇪"],
  ["lone surrogates", "\ud83d"],
  ["replacements", "\ufffd"],
  ["joined letters", "a\u200d"],
  ["marks", "\u0301"],
])("a line of 100,000 units of %s is measured, cut, wrapped and drawn", async (_what, unit) => {
  const { session } = await growTree("u1");
  const text = unit.repeat(100_000 / unit.length);
  expect(columnsOf(cutToColumns(text, 160))).toBeLessThanOrEqual(160);
  expect(columnsOf(text)).toBeGreaterThanOrEqual(0);
  expect(wrapText(text, 100).length).toBeGreaterThan(0);
  expect(drawTree(session, { describe: () => text, width: 80 })).not.toContain("\n");
});

test("a long line is measured and wrapped at the same characters as a short one", () => {
  const characters = fc.constantFrom("a", "é", "漢", "👩‍👩‍👧", "🇫🇷", "e\u0301", " ");
  const long = fc.array(characters, { minLength: 400, maxLength: 1_500 }).map((parts) => parts.join(""));
  fc.assert(
    fc.property(long, (text) => {
      expect([...graphemes(text)]).toEqual(
        Array.from(new Intl.Segmenter().segment(text), ({ segment }) => segment),
      );
      expect(columnsOf(text)).toBe(stringWidth(text));
    }),
    { numRuns: 60 },
  );
});

test("a tab in wrapped text takes the columns with which it is counted", () => {
  for (const line of wrapText("one\ttwo three", 10)) expect(line).not.toContain("\t");
});
