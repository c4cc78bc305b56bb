import { memoryLog, SessionTree } from "@espalier/session-tree";
import { expect, test } from "vitest";

const header = {
  type: "session",
  version: 3,
  id: "s1",
  timestamp: "2026-01-01T00:00:00.000Z",
  cwd: "/garden",
};
const said = (id: string, parentId: string | null) => ({
  type: "message",
  id,
  parentId,
  timestamp: "2026-01-01T00:00:01.000Z",
  message: { role: "user", content: id, timestamp: 1 },
});

const lines = (...values: object[]) => values.map((value) => JSON.stringify(value)).join("\n");

for (const [what, first, kinds] of [
  ["a header", [header], []],
  ["no header", [], ["no-header"]],
] as const)
  test(`a byte order mark in front of ${what} is no part of the first line, nor of any other`, async () => {
    const text = lines(...first, said("a", null), said("b", "a"));
    for (const end of ["\n", ""])
      for (const mark of ["\ufeff", ""]) {
        const session = await SessionTree.open(memoryLog(Buffer.from(`${mark}${text}${end}`)));
        expect(session.context.messages).toMatchObject([{ content: "a" }, { content: "b" }]);
        expect([...session.tree.entries()]).toEqual([said("a", null), said("b", "a")]);
        const { tree } = session;
        expect(Buffer.from(tree.bytesAt(0)).toString()).toBe(JSON.stringify(said("a", null)));
        expect(tree.issues.map(({ kind }) => kind).filter((kind) => kind !== "unterminated-tail")).toEqual(
          kinds,
        );
        const again = memoryLog(Buffer.from(`\ufeff${text}\n\ufeff${lines(said("c", "b"))}\n`));
        expect([...(await SessionTree.open(again)).tree.ids()]).toEqual(["a", "b", "c"]);
      }
  });

test("a log of nothing but a byte order mark is no session", async () => {
  for (const text of ["\ufeff", "\ufeff\n", "\ufeff\ufeff\n"])
    await expect(SessionTree.open(memoryLog(Buffer.from(text)))).rejects.toMatchObject({
      code: "not-a-session",
    });
});
