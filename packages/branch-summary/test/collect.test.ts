import { collectEntriesForBranchSummary, planBranchSummary } from "@espalier/branch-summary";
import { growTree } from "@espalier/session-tree/testing";
import { describe, expect, test } from "vitest";

/** Ids that are left behind, and the deepest entry on both paths. */
async function left(tree: string, oldLeafId: string | null, targetId: string | null) {
  const { session } = await growTree(tree);
  const { entries, commonAncestorId } = collectEntriesForBranchSummary(session, oldLeafId, targetId);
  const plan = planBranchSummary(session.tree, oldLeafId, targetId);
  expect(plan).toMatchObject({ entries, commonAncestorId });
  return {
    left: entries.map(({ id }) => id).join(" "),
    from: commonAncestorId,
    tells: plan.hasSomethingToTell,
  };
}

describe("the abandoned branch", () => {
  const fork = "u1 > a1 > u2 > a2 > u3 > a3; a1 > u4 > a4*";

  test("has the entries between the deepest common ancestor and the old leaf, oldest first", async () => {
    expect(await left(fork, "a4", "a2")).toEqual({ left: "u4 a4", from: "a1", tells: true });
    expect(await left(fork, "a3", "a4")).toEqual({ left: "u2 a2 u3 a3", from: "a1", tells: true });
  });

  test("has the later entries after navigating back on the same path", async () => {
    expect(await left(fork, "a3", "u2")).toEqual({ left: "a2 u3 a3", from: "u2", tells: true });
  });

  test("is empty after navigating forward, to the leaf, or from no entry", async () => {
    expect(await left(fork, "a1", "a3")).toEqual({ left: "", from: "a1", tells: false });
    expect(await left(fork, "a3", "a3")).toEqual({ left: "", from: "a3", tells: false });
    expect(await left(fork, null, "a3")).toEqual({ left: "", from: null, tells: false });
  });

  test("is the whole path before the first entry, or at another root", async () => {
    expect(await left(fork, "a4", null)).toEqual({ left: "u1 a1 u4 a4", from: null, tells: true });
    expect(await left("u1 > a1; u2 > a2*", "a2", "a1")).toEqual({ left: "u2 a2", from: null, tells: true });
  });

  test("includes entries that a compaction covers", async () => {
    expect(await left("u1 > a1 > u2 > a2 > k1(u2) > u3 > a3*", "a3", "a1")).toEqual({
      left: "u2 a2 k1 u3 a3",
      from: "a1",
      tells: true,
    });
  });

  test("an unknown id is an error", async () => {
    const { session } = await growTree(fork);
    expect(() => collectEntriesForBranchSummary(session, "a4", "nobody")).toThrow(
      expect.objectContaining({ code: "unknown-entry" }),
    );
  });
});

describe("a branch has no content for a summary", () => {
  for (const [what, branch] of [
    ["if it has only labels and names", "l1(u1 here) > n1(name)"],
    ["if it has only settings and state", "m1 > h1 > x1 > z1"],
    ["if it has only a compaction, whose covered entries are on the target path", "k1(a1)"],
    ["if its only message was edited out", "u2 > e1(u2)"],
    ["if it has only a system message", "y1"],
    ["if it has only an empty answer", 'a2("")'],
  ] as const)
    test(what, async () => {
      const end = branch.split(" > ").at(-1)!.slice(0, 2);
      expect(await left(`u1 > a1 > ${branch}`, end, "a1")).toMatchObject({ tells: false });
    });

  for (const [what, branch] of [
    ["a failed answer", 'f1(error "half")'],
    ["a branch summary", "s1"],
    ["a shell run", "b1"],
    ["an injected message", "i1"],
  ] as const)
    test(`but ${what} is content`, async () => {
      const end = branch.slice(0, 2);
      expect(await left(`u1 > a1 > ${branch}`, end, "a1")).toMatchObject({ tells: true });
    });
});
