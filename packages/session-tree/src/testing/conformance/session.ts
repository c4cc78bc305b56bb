import { contextEdit, custom, label } from "../../entry/kinds.ts";
import { ForkLines, forkHeader, planFork } from "../../store/fork.ts";
import { SessionTree } from "../../store/session-tree.ts";
import { labelsInForce } from "../../tree/queries.ts";
import { growTree } from "../grow-tree.ts";
import { bytesOf, type Trial } from "./store-under-test.ts";

/** Sessions on the store. */
export function sessionConformance({ test, expect }: Trial): void {
  test("a session reopens at the same leaf, with the same context", async (store) => {
    const { session, ref } = await growTree("u1 > a1 > u2 > a2", { store });
    const reopens = async () => {
      const again = await SessionTree.open(await store.open({ file: ref }, "read"));
      expect(again.leafId).toBe(session.leafId);
      expect(again.context).toEqual(session.context);
    };
    await reopens();
    await session.moveTo("a1");
    await reopens();
    await session.branchWithSummary("u1", "what a1 said");
    await reopens();
    await session.appendCompaction("so far", session.leafId!, 100);
    await reopens();
    await session.append([
      contextEdit.of({ targetId: session.leafId!, replacement: null }),
      label.of({ targetId: "a2", label: "x" }),
    ]);
    await reopens();
    await session.moveTo(null);
    await reopens();
  });

  test("a fork copies a path, and later changes of it do not affect the original", async (store) => {
    const { session, ref } = await growTree(`u1 > a1 > u2 > a2 > l1(a1 "here"); a1 > u3 > n1("trees")`, {
      store,
    });
    await session.load();
    const before = await bytesOf(session.log);
    const plan = planFork(session.tree, "a2");
    const log = await store.create(
      forkHeader(session.header!, ref, "a2", "2026-01-02T00:00:00.000Z"),
      new ForkLines(session.tree, plan),
    );
    const fork = await SessionTree.open(log);
    await fork.load();
    expect(fork.leafId).toBe("a2");
    expect(fork.getBranch().map(({ id }) => id)).toEqual(["u1", "a1", "u2", "a2"]);
    expect([...labelsInForce(fork.tree)].map(([id, { label: text }]) => [id, text])).toEqual([
      ["a1", "here"],
    ]);
    await fork.append(custom.of({ customType: "test" }));
    expect(Buffer.compare(await bytesOf(session.log), before)).toBe(0);
    expect(session.leafId).toBe("u3");
  });

  test("two sessions on one log keep their leaves, and see each other's branches", async (store) => {
    const { session, ref } = await growTree("u1 > a1", { store });
    const other = await SessionTree.open(await store.open({ file: ref }, "write"));
    const [mine] = await session.append(custom.of({ customType: "test", data: "mine" }));
    const [theirs] = await other.append(custom.of({ customType: "test", data: "theirs" }));
    await session.refresh();
    await Promise.all([session.load(), other.load()]);
    expect(session.leafId).toBe(mine!.id);
    expect(other.leafId).toBe(theirs!.id);
    for (const { tree } of [session, other]) {
      expect([...tree.ids()]).toEqual(["u1", "a1", mine!.id, theirs!.id]);
      expect(tree.parentIdAt(tree.row(theirs!.id))).toBe("a1");
    }
  });
}
