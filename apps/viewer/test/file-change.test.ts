import { expect, test } from "vitest";
import { fileChangeIn, patchLines } from "../src/page/file-change.ts";

test("a change is found however a tool calls what it replaces", () => {
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

test("arguments that tell of no change are none", () => {
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

test("a patch is read by the first character of its lines", () => {
  expect(patchLines("@@ -1 +1 @@\n-old\n+new\n same")).toEqual([
    { sign: " ", text: "@@ -1 +1 @@" },
    { sign: "-", text: "old" },
    { sign: "+", text: "new" },
    { sign: " ", text: "same" },
  ]);
});
