import { bytesView } from "@espalier/jsonl-stream";
import { type DrawOptions, drawTree, roleAt, Tree } from "@espalier/session-tree";
import { growEntries, growTree } from "@espalier/session-tree/testing";
import fc from "fast-check";
import { describe, expect, test } from "vitest";

async function drawn(text: string, options?: DrawOptions): Promise<string> {
  return drawTree((await growTree(text)).session, options);
}

const BRANCHED = `u1 > a1 > u2 > c1 > t1 > a2 > k1(u2) > u4 > a4 > l1(u2 "checkpoint")
  a1 > u3 > s1(a4) > e1(u1); u3 > a9 > a10; u3 > a11; s1*`;

describe("a drawing of a tree", () => {
  test("has one line per entry, with the path of the leaf straight down and other branches indented", async () => {
    expect(await drawn(BRANCHED)).toBe(
      `
u1
a1
├─ u2 [checkpoint]
│  c1
│  t1
│  a2
│  k1 (compaction, keeps from u2)
│  u4
│  a4
u3
├─ a9
│  a10
├─ a11
s1 (summary of a4) *
e1 (leaves out u1)`.trim(),
    );
  });

  test("folds runs of entries without special content", async () => {
    expect(await drawn(BRANCHED, { fold: 2 })).toBe(
      `
u1
a1
├─ u2 [checkpoint]
│  … 3 entries
│  k1 (compaction, keeps from u2)
│  u4
│  a4
u3
├─ a9
│  a10
├─ a11
s1 (summary of a4) *
e1 (leaves out u1)`.trim(),
    );
    expect(await drawn("u1 > a1 > u2 > a2 > k1(u2) > u3 > a3*", { fold: 0, foldPrompts: true })).toBe(
      "… 4 entries\nk1 (compaction, keeps from u2)\n… 1 entry\na3 *",
    );
    expect(await drawn("u1 > a1 > a2 > a3 > a4*", { fold: 2 })).toBe("u1\n… 3 entries\na4 *");
    expect(await drawn("u1 > a1 > a2 > a3 > a4*", { fold: 3 })).toBe("u1\na1\na2\na3\na4 *");
    expect(await drawn(`u1 > a1 > a2 > a3 > a4* > l1(a2 "x")`, { fold: 0 })).toBe(
      "u1\n… 1 entries\na2 [x]\n… 1 entries\na4 *".replaceAll("1 entries", "1 entry"),
    );
  });

  test("can leave entries out, and marks the leaf at its nearest drawn ancestor", async () => {
    const text = `u1 > a1 > x1 > u2 > a2 > x2*; x1 > u3 > x3 > x4; a2 > l1(x2 "here")`;
    const leaveOut: DrawOptions["leaveOut"] = (tree, row) => tree.idAt(row).startsWith("x");
    const body = "u1\na1\n├─ u3\nu2\na2";
    expect(await drawn(text, { leaveOut })).toBe(`${body}\nx2 [here] *`);
    const unlabelled = text.replace(/; a2 > l1.*/, "");
    expect(await drawn(unlabelled, { leaveOut })).toBe(`${body} *`);
    expect(await drawn(unlabelled, { leaveOut, rootId: "x1" })).toBe("x1\n├─ u3\nu2\na2 *");
  });

  test("starts with a separate line if there are several roots, or if the leaf is before the first entry", async () => {
    expect(await drawn("u1 > a1; u2 > a2 > a3; m1 > u5*")).toBe(
      "(start)\n├─ u1\n│  a1\n├─ u2\n│  a2\n│  a3\nm1\nu5 *",
    );
    const { session } = await growTree("u1 > a1");
    await session.moveTo(null);
    expect(drawTree(session)).toBe("(start) *\nu1\na1");
    expect(drawTree((await growTree("")).session)).toBe("(start) *");
  });

  test("leaves out entries outside of the conversation, and keeps their descendants", async () => {
    expect(await drawn(`u1 > l1(u1 "x") > a1 > n1(name) > g1 > u2; l1 > a2; g1*`)).toBe(
      "u1 [x]\n├─ a2\na1 *\nu2",
    );
  });

  test("can begin at any entry, and mark any leaf", async () => {
    expect(await drawn(BRANCHED, { rootId: "u3" })).toBe(
      "u3\n├─ a9\n│  a10\n├─ a11\ns1 (summary of a4) *\ne1 (leaves out u1)",
    );
    expect(await drawn("u1 > a1 > u2; a1 > u3", { leafId: "u2" })).toBe("u1\na1\n├─ u3\nu2 *");
    await expect(drawn("u1", { rootId: "u9" })).rejects.toMatchObject({ code: "unknown-entry" });
  });

  test("is never wider than the given width, and is cut between visible characters", async () => {
    const says = (text: string) =>
      drawn(`u1("x") > a1; u1 > u2*`, { width: 16, describe: ({ id }) => `${id} ${text}` });
    expect(await says("plain and then some more")).toBe(
      "u1 plain and th…\n├─ a1 plain and…\nu2 plain and … *",
    );
    expect(await says("日本語日本語日本語")).toBe("u1 日本語日本語…\n├─ a1 日本語日…\nu2 日本語日本… *");
    expect(await says("👩‍👩‍👧👩‍👩‍👧👩‍👩‍👧👩‍👩‍👧👩‍👩‍👧👩‍👩‍👧👩‍👩‍👧")).toBe(
      "u1 👩‍👩‍👧👩‍👩‍👧👩‍👩‍👧👩‍👩‍👧👩‍👩‍👧👩‍👩‍👧…\n├─ a1 👩‍👩‍👧👩‍👩‍👧👩‍👩‍👧👩‍👩‍👧…\nu2 👩‍👩‍👧👩‍👩‍👧👩‍👩‍👧👩‍👩‍👧👩‍👩‍👧… *",
    );
    expect(await says("e\u0301".repeat(30))).toBe(
      `u1 ${"e\u0301".repeat(12)}…\n├─ a1 ${"e\u0301".repeat(9)}…\nu2 ${"e\u0301".repeat(10)}… *`,
    );
    expect(await says("fits in here")).toContain("u1 fits in here\n");
  });

  test("contains no control characters of a terminal", async () => {
    const evil = "\u001b[2J\u001b]0;title\u0007\r\n\u202e\ud800\u009b1m";
    const picture = await drawn(`u1 > a1 > l1(u1 "${"\\u001b[31m"}")`, { describe: () => evil });
    expect(picture.split("\n")).toHaveLength(2);
    expect(picture.replaceAll("\n", "")).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u202e]/);
    expect(picture.isWellFormed()).toBe(true);
  });

  test("is coloured part by part", async () => {
    const tag = (name: string) => (text: string) => `<${name}>${text}</${name}>`;
    const colours = {
      active: tag("on"),
      dim: tag("dim"),
      summary: tag("sum"),
      label: tag("label"),
      leaf: tag("leaf"),
    };
    expect(await drawn(`u1 > a1 > a2; u1 > s1(a2)* > l1(u1 "x")`, { colours })).toBe(
      "<on>u1</on><label> [x]</label>\n<dim>├─ </dim><dim>a1</dim>\n<dim>│  </dim><dim>a2</dim>\n<sum>s1 (summary of a2)</sum> <leaf>*</leaf>",
    );
    expect(await drawn("u1 > a1 > a2 > u2", { colours, fold: 1 })).toContain("<dim>… 2 entries</dim>");
  });

  test("has every entry once, with a depth of at most the logarithm of their number", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.nat({ max: 99 }), { minLength: 1, maxLength: 60 }),
        fc.nat({ max: 99 }),
        async (parents, leafAt) => {
          const chains = parents.map((pick, at) =>
            at === 0 || pick % 13 === 0 ? `u${at}` : `u${pick % at} > u${at}`,
          );
          const { session } = await growTree(`${chains.join(";")}; u${leafAt % parents.length}*`);
          const lines = drawTree(session).split("\n");
          const names = lines.map((line) => /u\d+/.exec(line)?.[0]).filter((name) => name !== undefined);
          expect(names.toSorted()).toEqual(parents.map((_, at) => `u${at}`).toSorted());
          const depth = Math.max(...lines.map((line) => line.search(/[u(]/) / 3));
          expect(depth).toBeLessThanOrEqual(Math.log2(parents.length) + 2);
          expect(lines.filter((line) => line.endsWith(" *"))).toHaveLength(1);
        },
      ),
      { numRuns: 200 },
    );
  });

  test("can be made from a tree or from a session", async () => {
    const { session } = await growTree("u1 > a1 > u2; a1*");
    const tree = new Tree(await session.log.load());
    expect(drawTree(tree)).toBe(drawTree(session));
    expect(growEntries("u1")).toHaveLength(1);
  });
});

test("a user's message is not folded, wherever its line names the role and whatever text it has", () => {
  const message = (at: number, says: string) =>
    `{"type":"message","id":"e${at}","parentId":${at === 0 ? null : `"e${at - 1}"`},"timestamp":"t","message":${says}}`;
  const answer = '{"role":"assistant","content":"…"}';
  const lines = [
    '{"role":"user","content":"first"}',
    answer,
    `{"content":"${"x".repeat(500)}","role":"user"}`,
    answer,
    String.raw`{"content":"\"message\":{\"role\":\"user\"","role":"assistant"}`,
    answer,
    '{ "role" : "user", "content": "last" }',
    answer,
    answer,
  ].map((says, at) => message(at, says));
  const tree = new Tree(bytesView(Buffer.from(`${lines.join("\n")}\n`)));
  expect(Array.from(lines, (_, row) => roleAt(tree, row)?.[0]).join("")).toBe("uauaaauaa");
  expect(drawTree(tree, { fold: 0 })).toBe(
    ["e0", "… 1 entry", "e2", "… 3 entries", "e6", "… 1 entry", "e8 *"].join("\n"),
  );
});

test("the role of a line is that of its message, not of a message in another field", () => {
  const line =
    '{"type":"message","id":"a","parentId":null,"details":{"message":{"role":"user"}},"message":{"role":"assistant"}}';
  expect(roleAt(new Tree(bytesView(Buffer.from(`${line}\n`))), 0)).toBe("assistant");
});
