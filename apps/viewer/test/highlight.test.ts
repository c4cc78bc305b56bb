import { expect, test } from "vitest";
import { highlighted, LONGEST_COLOURED, languageOf } from "../src/page/text/highlight.ts";

test("code is highlighted by its language, and its text is escaped", () => {
  expect(highlighted("const a = '<b>';", "ts")).toContain('<span class="hljs-keyword">const</span>');
  expect(highlighted("const a = '<b>';", "ts")).not.toContain("<b>");
  expect(highlighted("anything", "no-such-language")).toBeUndefined();
  expect(highlighted("anything", undefined)).toBeUndefined();
});

test("the language of a file follows from its name", () => {
  const names = ["src/a.ts", "b.test.MJS", "c.toml", "Makefile", "d.nothing", ".gitignore"];
  expect(names.map((name) => languageOf(name))).toEqual([
    "ts",
    "mjs",
    "toml",
    undefined,
    undefined,
    undefined,
  ]);
});

test("code that would take long to highlight is shown without colours", () => {
  const line = 'export const name = "value"; // why\n';
  expect(highlighted(line.repeat(500), "ts")).toContain("hljs-string");
  expect(highlighted(line.repeat(LONGEST_COLOURED / line.length + 1), "ts")).toBeUndefined();
  for (const run of ["a", "7", "_", "1.", "-", "\n", " "])
    for (const language of ["bash", "c", "ini", "ts", "yaml"])
      expect(highlighted(`x ${run.repeat(1_000)} y`, language)).toBeUndefined();
});
