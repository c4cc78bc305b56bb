import { cut, cutText } from "@espalier/summarizer";
import fc from "fast-check";
import { describe, expect, it } from "vitest";

describe("cutText", () => {
  it("does not change a text within the limit", () => {
    expect(cutText("abc", 3)).toBe("abc");
  });

  it("keeps the beginning and counts the omitted characters", () => {
    expect(cutText("x".repeat(2_010), 2_000)).toBe(`${"x".repeat(2_000)}\n[… 10 characters left out]`);
  });

  it("keeps the beginning and the end in the other form", () => {
    expect(cutText("abcdefghij", 4, "head-tail")).toBe("ab\n[… 6 characters left out]\nij");
  });

  it("leaves out a whole code point if the cut is inside it", () => {
    expect(cutText("a👍b", 2)).toBe("a\n[… 3 characters left out]");
    expect(cutText("a👍bcd👍", 3, "head-tail")).toBe("a\n[… 7 characters left out]");
  });

  it("never splits a code point, never exceeds the limit, and counts every character", () => {
    const anyText = fc.string({ unit: "grapheme", maxLength: 60 });
    const shapes = fc.constantFrom("head" as const, "head-tail" as const);
    fc.assert(
      fc.property(anyText, fc.integer({ min: -2, max: 70 }), shapes, (text, limit, shape) => {
        const shown = cut(text, limit, shape);
        expect(shown.text.isWellFormed()).toBe(true);
        if (shown.leftOut === 0) {
          expect(shown.text).toBe(text);
          return;
        }
        const mark = `[… ${shown.leftOut} characters left out]`;
        const at = shown.text.indexOf(mark);
        const head = shown.text.slice(0, Math.max(0, at - 1));
        const tail = shown.text.slice(at + mark.length + 1);
        expect(head.length + tail.length).toBe(text.length - shown.leftOut);
        expect(head.length + tail.length).toBeLessThanOrEqual(Math.max(0, limit));
        expect(text.startsWith(head) && text.endsWith(tail)).toBe(true);
      }),
      { numRuns: 500 },
    );
  });
});
