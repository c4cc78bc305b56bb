import { readPathWindow } from "../../context/window.ts";
import { ForkLines, forkHeader, planFork } from "../../store/fork.ts";
import { SessionTree } from "../../store/session-tree.ts";
import { Tree } from "../../tree/tree.ts";
import { growEntries } from "../grow-tree.ts";
import { header, line, linesOf, type Trial } from "./store-under-test.ts";

const TREE = `u1 > a1 > m1 > h1 > u2 > c1 > t1 > a2 > k1(u2) > u3 > a3 > e1(t1)
  a2 > u4 > a4 > l1(u4 "named"); a1 > s1(a4) > u5`;

/** Reading a path without the whole log. */
export function readConformance({ test, expect }: Trial): void {
  test("the end of every path is the same as in the whole log", async (store) => {
    const entries = growEntries(TREE);
    const log = await store.create(
      header("s1"),
      entries.map((entry) => JSON.stringify(entry)),
    );
    const view = await log.load();
    expect(readPathWindow(view)).toMatchObject(await log.readPath());
    for (const { id } of entries) expect(readPathWindow(view, id)).toMatchObject(await log.readPath(id));
  });

  test("a path can be read before the log is loaded, and after another writer appended", async (store) => {
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

  test("all entries on one line count, in every way of reading", async (store) => {
    const named = line("n", "c").replace('"type":"custom"', '"type":"session_info","name":"glued"');
    const lines = [line("a") + line("b", "a") + line("c", "b"), named + line("d", "c")];
    const { ref } = await store.create(header("s1"), lines);
    const log = await store.open({ file: ref }, "write");
    const ids = ({ entries }: { entries: readonly { id: string }[] }) => entries.map(({ id }) => id);
    expect(ids(await log.readPath())).toEqual(["a", "b", "c", "d"]);
    expect(ids(await log.readPath("b"))).toEqual(["a", "b"]);
    const listed: unknown[] = [];
    for await (const { name } of store.list()) listed.push(name);
    expect(listed).toEqual(["glued"]);
    const other = await store.open({ file: ref }, "write");
    await other.append([line("e", "d") + line("f", "e")]);
    const session = await SessionTree.open(log);
    expect(session.leafId).toBe("d");
    await session.refresh();
    await session.load();
    expect(session.tree.has("e")).toBe(true);
    const again = await SessionTree.open(await store.open({ file: ref }, "write"));
    const tree = await again.load();
    expect([...tree.ids()]).toEqual(["a", "b", "c", "n", "d", "e", "f"]);
    expect(again.getBranch().map(({ id }) => id)).toEqual(["a", "b", "c", "d", "e", "f"]);
    const plan = planFork(tree, "e");
    const made = forkHeader(again.header!, ref, plan.leafId, "2026-01-02T00:00:00.000Z");
    const fork = await store.create(made, new ForkLines(tree, plan));
    const path = ["a", "b", "c", "d", "e"].map((id, at, all) => line(id, all[at - 1] ?? null));
    expect((await linesOf(fork)).slice(1, 6)).toEqual(path);
    expect(new Tree(await fork.load()).issues).toEqual([]);
  });

  test("the error for an unknown id names similar ids", async (store) => {
    const log = await store.create(header("s1"), [line("abcdef"), line("ghijkl")]);
    await expect(log.readPath("abcdeg")).rejects.toMatchObject({ code: "unknown-entry" });
    const error = await log.readPath("abcdeg").catch((cause: Error) => cause);
    expect((error as Error).message.includes("abcdef")).toBe(true);
  });
}
