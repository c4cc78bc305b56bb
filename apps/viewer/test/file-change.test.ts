import { expect, test } from "vitest";
import { fileChangeIn, patchLines } from "../src/page/entry/message-view.tsx";

test("a change is found whatever names a tool uses for its texts", () => {
  for (const edit of [
    { path: "a.ts", oldText: "one\ntwo\n", newText: "one\nthree\n" },
    { file_path: "a.ts", old_string: "one\ntwo\n", new_string: "one\nthree\n" },
    { path: "a.ts", edits: [{ oldText: "one\ntwo\n", newText: "one\nthree\n" }] },
  ]) {
    expect(fileChangeIn(edit)).toEqual({
      path: "a.ts",
      parts: [
        [
          { sign: " ", text: "one" },
          { sign: "-", text: "two" },
          { sign: "+", text: "three" },
        ],
      ],
    });
  }
});

test("a text with nearly all lines changed is shown as removed and added, without a comparison", () => {
  const lines = (letters: string, length: number) =>
    Array.from({ length }, (_, at) => letters[(at * at) % letters.length]).join("\n");
  const change = { path: "a.ts", oldText: lines("abcdefg", 9_000), newText: lines("zyxwvu", 9_000) };
  const [signs] = fileChangeIn(change)!.parts.map((part) => part.map(({ sign }) => sign).join(""));
  expect(signs).toBe("-".repeat(9_000) + "+".repeat(9_000));
  const few = { path: "a.ts", oldText: lines("abcdefg", 9_000), newText: `new\n${lines("abcdefg", 9_000)}` };
  expect(fileChangeIn(few)!.parts[0]!.filter(({ sign }) => sign !== " ")).toEqual([
    { sign: "+", text: "new" },
  ]);
  const mixed = lines("aaabbb", 2_000).replaceAll("b", "c");
  const many = fileChangeIn({ path: "a.ts", oldText: lines("aaabbb", 2_000), newText: mixed })!.parts[0]!;
  expect(many.some(({ sign }) => sign === " ")).toBe(false);
});

test("arguments without a change give none", () => {
  for (const given of [
    null,
    "text",
    [],
    { path: "a" },
    { path: 1, oldText: "a", newText: "b" },
    { edits: [1] },
  ])
    expect(fileChangeIn(given)).toBeUndefined();
});

test("a patch is parsed by the first character of its lines", () => {
  expect(patchLines("@@ -1 +1 @@\n-old\n+new\n same")).toEqual([
    { sign: " ", text: "@@ -1 +1 @@" },
    { sign: "-", text: "old" },
    { sign: "+", text: "new" },
    { sign: " ", text: "same" },
  ]);
});
