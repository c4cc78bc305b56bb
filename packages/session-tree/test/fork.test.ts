import {
  drawTree,
  ForkLines,
  forkHeader,
  labelsInForce,
  message,
  planFork,
  referenceIssues,
  SessionTree,
  sessionName,
  usage,
  WRITER,
} from "@espalier/session-tree";
import { growTree } from "@espalier/session-tree/testing";
import { describe, expect, test } from "vitest";

/** Forks a grown tree, in its own store, and opens the fork. */
async function forked(text: string, entryId: string, position?: "at" | "before") {
  const { session, store, ref } = await growTree(text);
  const plan = planFork(session.tree, entryId, position);
  const header = forkHeader(session.header!, ref, plan.leafId, "2026-02-02T00:00:00.000Z");
  const fork = await SessionTree.open(await store.create(header, new ForkLines(session.tree, plan)));
  const labels = Object.fromEntries([...labelsInForce(fork.tree)].map(([id, { label }]) => [id, label]));
  return { session, fork, plan, labels, lines: await linesOf(fork), store };
}

async function linesOf(session: SessionTree): Promise<string[]> {
  const view = await session.log.load();
  return Buffer.from(view.read(0, view.size)).toString().trimEnd().split("\n");
}

describe("a fork", () => {
  test("has the lines of the path with their ids, under a header that names its source", async () => {
    const { session, fork, lines } = await forked("u1 > a1 > u2 > a2; a1 > u3 > a3*", "a2");
    expect(fork.header).toEqual({
      type: "session",
      version: 3,
      id: fork.id,
      timestamp: "2026-02-02T00:00:00.000Z",
      cwd: "/garden",
      writer: WRITER,
      parentSession: "grown",
      parent: { sessionId: "grown", entryId: "a2", kind: "fork" },
    });
    expect(fork.id).not.toBe(session.id);
    expect(lines.slice(1)).toEqual((await linesOf(session)).slice(1, 5));
    expect(drawTree(fork)).toBe("u1\na1\nu2\na2 *");
  });

  test("at an entry ends with it; before an entry, it ends above it and returns its text", async () => {
    const tree = `u1("plant a pear") > a1 > u2("and a quince") > a2 > i1("from an extension") > a3`;
    const at = await forked(tree, "u2");
    expect(at.plan).toMatchObject({ leafId: "u2", selectedText: null });
    const before = await forked(tree, "u2", "before");
    expect(before.plan).toMatchObject({ leafId: "a1", selectedText: "and a quince" });
    expect((await forked(tree, "i1", "before")).plan).toMatchObject({
      leafId: "a2",
      selectedText: "from an extension",
    });
    expect((await forked(tree, "a2", "before")).plan).toMatchObject({ leafId: "u2", selectedText: null });
  });

  test("before the first entry is an empty session with the name", async () => {
    const { fork, lines, plan } = await forked(
      `u1("first") > a1 > n1("Orchard") > l1(u1 "start")`,
      "u1",
      "before",
    );
    expect(plan).toMatchObject({ leafId: null, selectedText: "first", rows: [] });
    expect(fork.leafId).toBe(null);
    expect(fork.context.messages).toEqual([]);
    expect(sessionName(fork.tree)).toBe("Orchard");
    expect(lines).toHaveLength(2);
    const [entry] = await fork.append(
      message.of({ message: { role: "user", content: "anew", timestamp: 1 } }),
    );
    expect(entry!.parentId).toBe(null);
  });

  test("has the current labels of its entries with their old times, and no other labels", async () => {
    const { fork, labels, session } = await forked(
      `u1 > a1 > u2 > a2; a1 > u3
       a2 > l1(u1 "old") > l2(u1 "new") > l3(u2 "gone") > l4(u2) > l5(u3 "elsewhere") > l6(a2 "here")`,
      "a2",
    );
    expect(labels).toEqual({ u1: "new", a2: "here" });
    const added = [...fork.tree.entries()].filter(({ type }) => type === "label");
    expect(added.map(({ timestamp }) => timestamp)).toEqual([
      session.getEntry("l2")!.timestamp,
      session.getEntry("l6")!.timestamp,
    ]);
    expect(added.every(({ parentId }) => parentId === "a2")).toBe(true);
    expect(fork.leafId).toBe("a2");
  });

  test("keeps labels that are on the path, and clears one that was cleared on another branch", async () => {
    const { labels, fork, lines, session } = await forked(
      `u1 > l1(u1 "kept") > l2(u1 "kept") > a1 > l3(a1 "cleared later") > u2; u1 > l4(a1)`,
      "u2",
    );
    expect(labels).toEqual({ u1: "kept" });
    expect(lines.slice(1, 7)).toEqual((await linesOf(session)).slice(1, 7));
    expect(fork.tree.length).toBe(7);
    expect(fork.leafId).toBe("u2");
  });

  test("does not clear labels of entries that it does not have", async () => {
    const { fork, labels } = await forked(`u1 > a1; u1 > l1(a1 "not copied") > u2; u1 > l2(a1)`, "u2");
    expect(labels).toEqual({ a1: "not copied" });
    expect(fork.tree.length).toBe(3);
    expect([...fork.tree.ids()]).toEqual(["u1", "l1", "u2"]);
  });

  test("has no issue because of a label, on its path, of an entry on another branch", async () => {
    const text = `u1 > a1; u1 > l1(a1 "not copied") > u2`;
    const { fork, session } = await forked(text, "u2");
    expect(referenceIssues(session.tree)).toEqual([]);
    expect(referenceIssues(fork.tree)).toEqual([]);
  });

  test("has the current name once, and no name that was removed", async () => {
    const named = await forked(`u1 > n1("one") > a1 > u2; u1 > n2("two")`, "u2");
    expect(sessionName(named.fork.tree)).toBe("two");
    const same = await forked(`u1 > n1("one") > a1`, "a1");
    expect(same.fork.tree.length).toBe(3);
    const unnamed = await forked(`u1 > n1("one") > a1 > u2; u1 > n2("")`, "u2");
    expect(sessionName(unnamed.fork.tree)).toBeUndefined();
  });

  test("copies no usage entries except those on the path", async () => {
    const beside = await forked("u1 > a1 > g1", "a1");
    expect([...beside.fork.tree.ids()]).toEqual(["u1", "a1"]);
    const between = await forked("u1 > g1 > a1", "a1");
    expect([...between.fork.tree.ids()]).toEqual(["u1", "g1", "a1"]);
    expect(usage.is(between.fork.getEntry("g1")!)).toBe(true);
  });

  test("gives a model the same context as its source, with compactions and edits", async () => {
    const { session, fork } = await forked(
      "u1 > m1 > h1 > a1 > u2 > a2 > k1(u2) > u3 > e1(a2) > a3; a3 > k2 > u4",
      "a3",
    );
    expect(fork.context).toEqual(session.contextAt("a3"));
    expect(fork.context).toMatchObject({ thinkingLevel: "high", model: { provider: "anthropic" } });
    expect(referenceIssues(fork.tree)).toEqual([]);
  });

  test("does not change its source, and both continue independently", async () => {
    const { session, fork } = await forked("u1 > a1", "a1");
    const before = await linesOf(session);
    await fork.append(message.of({ message: { role: "user", content: "other ways", timestamp: 1 } }));
    expect(await linesOf(session)).toEqual(before);
    expect(session.leafId).toBe("a1");
  });

  test("of a fork names that fork as its source", async () => {
    const first = await forked("u1 > a1 > u2", "a1");
    const plan = planFork(first.fork.tree, "u1");
    expect(
      forkHeader(first.fork.header!, first.fork.log.ref, plan.leafId, "2026-03-03T00:00:00.000Z"),
    ).toMatchObject({
      parentSession: first.fork.log.ref,
      parent: { sessionId: first.fork.id, entryId: "u1" },
    });
  });

  test("of nothing is refused", async () => {
    const { session } = await growTree("u1 > a1");
    expect(() => planFork(session.tree, "u9")).toThrow(expect.objectContaining({ code: "unknown-entry" }));
  });
});
