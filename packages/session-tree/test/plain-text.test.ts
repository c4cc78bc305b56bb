import { plainJson, plainLine, plainText } from "@espalier/session-tree";
import fc from "fast-check";
import { describe, expect, it } from "vitest";

const ACTING =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u180e\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060-\u206f\ufeff]|\udb40[\udc00-\udc7f]/;

/** Texts in which what a terminal acts on is frequent. */
const texts = fc.string({
  unit: fc.oneof(
    fc.constantFrom(
      ..."\u001b\u009b\u0007\u009c\\[]P^_;m0 31A(B\r\n\t\u0085\u2028\u202e\ud800\u200b\u2060\ufeff",
      "\u{e0041}",
    ),
    fc.string({ unit: "binary", minLength: 1, maxLength: 1 }),
  ),
});

describe("plain text", () => {
  it("contains nothing that a terminal or a page would execute, for any input", () => {
    fc.assert(
      fc.property(texts, (text) => {
        const plain = plainText(text);
        expect(plain).not.toMatch(ACTING);
        expect(plain.isWellFormed()).toBe(true);
        expect(plainText(plain)).toBe(plain);
        expect(plainLine(text)).not.toMatch(/[\t\n]/);
      }),
      { numRuns: 2_000 },
    );
  });

  it("keeps the text with its tabs and line breaks", () => {
    const said = "\tBäume, 漢字 🌳 👩‍👩‍👧 می‌خواهم\n\nالعربية and <b>tags</b> `code`";
    expect(plainText(said)).toBe(said);
    expect(plainText("one\r\ntwo\rthree\u0085four\u2028five")).toBe("one\ntwo\nthree\nfour\nfive");
  });

  it.each([
    ["a style", "\u001b[1;31mred\u001b[0m", "red"],
    ["an 8-bit control sequence", "\u009b31mred", "red"],
    ["a title", "\u001b]0;owned\u0007red", "red"],
    ["a link", "\u001b]8;;https://example.com\u001b\\red\u001b]8;;\u001b\\", "red"],
    ["a character set", "\u001b(Bred", "red"],
    ["characters without width", "p\u200ba\u2060y\ufeff \u2063m\u180ee", "pay me"],
    ["a text of tags", "hi\u{e0068}\u{e0069}\u{e007f}", "hi"],
    ["a title without an end, but not the text after it", "\u001b]0;red\nblue", "0;red\nblue"],
  ])("leaves out %s", (_what, text, plain) => {
    expect(plainText(text)).toBe(plain);
  });

  it("handles a long hostile text in linear time", () => {
    for (const unit of ["\u001b]", "\u001b[", "\u001b[0;", "\u009b0", "\u001b ", "\u001bP0"])
      expect(plainText(unit.repeat(500_000))).not.toMatch(ACTING);
  });

  it("is the same JSON value, with control characters escaped", () => {
    fc.assert(
      fc.property(texts, (text) => {
        const json = plainJson(JSON.stringify({ [text]: text }));
        expect(json).not.toMatch(ACTING);
        expect(JSON.parse(json)).toEqual({ [text]: text });
      }),
    );
  });
});
