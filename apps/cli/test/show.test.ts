import { expect, test } from "vitest";
import { DEMO, espalier, espalierJson, HEADER, said, sessionOf } from "./espalier.ts";

test("show --json is the line as it is on disk, byte for byte", async () => {
  const line =
    '{"customType":"a  b", "type":"custom","id":"c1","parentId":null,"timestamp":"t","data":{"n":1.0e2,"s":"\\u00e9"}}';
  const file = sessionOf(HEADER, line);
  expect((await espalier(["show", file, "c1", "--json"])).stdout).toBe(`${line}\n`);
});

test("show tells people what an entry is, where it hangs, and all it says", async () => {
  const { stdout } = await espalier(["show", DEMO, "before-cache"]);
  const lines = stdout.split("\n");
  expect(lines[0]).toBe("message · assistant · vPdDiWYGH0ya");
  expect(lines[1]).toMatch(
    /^\[before-cache\] · 2026-03-07 .* · under O566c3bkrvqI · on the path of the leaf$/,
  );
  expect(stdout).toContain("**What people ask for.** Issue #41 wants about two months");
});

test("an entry whose line was damaged keeps its place and says so", async () => {
  const damaged =
    '{"type":"message","id":"e1","parentId":null,"timestamp":"t","message":{"role":"user","content":nothing}}';
  const file = sessionOf(HEADER, damaged, said("e2", "e1", "whole"));
  const { code, value } = await espalierJson(["show", file, "e1"]);
  expect(code).toBe(1);
  expect(value.error.code).toBe("damaged");
  const tree = await espalierJson(["tree", file]);
  expect(tree.value.entries.map(({ id }: { id: string }) => id)).toEqual(["e1", "e2"]);
  expect(tree.stderr).toBe(`1 line is damaged; \`espalier doctor ${file}\` says where.\n`);
});
