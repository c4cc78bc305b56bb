import { readPathWindow } from "../../read-path-window.ts";
import { growEntries } from "../grow-tree.ts";
import { header, line, type Trial } from "./store-under-test.ts";

const TREE = `u1 > a1 > m1 > h1 > u2 > c1 > t1 > a2 > k1(u2) > u3 > a3 > e1(t1)
  a2 > u4 > a4 > l1(u4 "named"); a1 > s1(a4) > u5`;

/** Reading without the whole log. */
export function readConformance({ test, expect }: Trial): void {
  test("the end of every path is what reading the whole log gives", async (store) => {
    const entries = growEntries(TREE);
    const log = await store.create(
      header("s1"),
      entries.map((entry) => JSON.stringify(entry)),
    );
    const view = await log.load();
    expect(readPathWindow(view)).toMatchObject(await log.readPath());
    for (const { id } of entries) expect(readPathWindow(view, id)).toMatchObject(await log.readPath(id));
  });

  test("a path can be read before anything is loaded, and after others appended", async (store) => {
    const { ref } = await store.create(header("s1"), [line("a"), line("b", "a")]);
    const log = await store.open({ file: ref }, "read");
    expect((await log.readPath()).entries.map(({ id }) => id)).toEqual(["a", "b"]);
    const other = await store.open({ file: ref }, "write");
    await other.append([line("c", "a")]);
    await log.takeIn();
    expect((await log.readPath()).entries.map(({ id }) => id)).toEqual(["a", "c"]);
    expect((await log.readPath("b")).entries.map(({ id }) => id)).toEqual(["a", "b"]);
  });

  test("a session without entries has an empty path", async (store) => {
    const log = await store.create(header("s1"));
    expect(await log.readPath()).toMatchObject({ leafId: null, entries: [], complete: true });
  });

  test("an id that is not there is told from those near it", async (store) => {
    const log = await store.create(header("s1"), [line("abcdef"), line("ghijkl")]);
    await expect(log.readPath("abcdeg")).rejects.toMatchObject({ code: "unknown-entry" });
    const error = await log.readPath("abcdeg").catch((cause: Error) => cause);
    expect((error as Error).message.includes("abcdef")).toBe(true);
  });
}
