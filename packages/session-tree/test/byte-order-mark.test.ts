import { memoryLog, SessionTree } from "@espalier/session-tree";
import { growTree } from "@espalier/session-tree/testing";
import { expect, test } from "vitest";

const [header, u1, u2, u3] = await linesOf("u1 > u2 > u3");

/** The lines of a session that was grown, header first, as values. */
async function linesOf(text: string): Promise<object[]> {
  const view = (await growTree(text)).session.log.view!;
  const written = Buffer.from(view.read(0, view.size)).toString().trimEnd();
  return written.split("\n").map((line) => JSON.parse(line) as object);
}

const lines = (...values: object[]) => values.map((value) => JSON.stringify(value)).join("\n");

for (const [what, first, kinds] of [
  ["a header", [header!], []],
  ["no header", [], ["no-header"]],
] as const)
  test(`a byte order mark before ${what} is not part of the first line or of any other line`, async () => {
    const text = lines(...first, u1!, u2!);
    for (const end of ["\n", ""])
      for (const mark of ["\ufeff", ""]) {
        const session = await SessionTree.open(memoryLog(Buffer.from(`${mark}${text}${end}`)));
        expect(session.context.messages).toMatchObject([{ content: "u1" }, { content: "u2" }]);
        expect([...session.tree.entries()]).toEqual([u1!, u2!]);
        const { tree } = session;
        expect(Buffer.from(tree.bytesAt(0)).toString()).toBe(JSON.stringify(u1!));
        expect(tree.issues.map(({ kind }) => kind).filter((kind) => kind !== "unterminated-tail")).toEqual(
          kinds,
        );
        const again = memoryLog(Buffer.from(`\ufeff${text}\n\ufeff${lines(u3!)}\n`));
        expect([...(await SessionTree.open(again)).tree.ids()]).toEqual(["u1", "u2", "u3"]);
      }
  });

test("a log that contains only a byte order mark is not a session", async () => {
  for (const text of ["\ufeff", "\ufeff\n", "\ufeff\ufeff\n"])
    await expect(SessionTree.open(memoryLog(Buffer.from(text)))).rejects.toMatchObject({
      code: "not-a-session",
    });
});
