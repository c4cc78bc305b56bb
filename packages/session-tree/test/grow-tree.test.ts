import {
  anthropicFormat,
  buildRequest,
  labelsInForce,
  referenceIssues,
  sessionName,
} from "@espalier/session-tree";
import { checkAnthropicRequest, growEntries, growTree } from "@espalier/session-tree/testing";
import { describe, expect, test } from "vitest";

const shape = (text: string) =>
  growEntries(text).map(({ id, parentId, type }) => `${parentId ?? "·"}>${id}:${type}`);

describe("a tree grown from a line of text", () => {
  test("has chains, branches and a leaf", async () => {
    const { session } = await growTree("u1 > a1 > u2; a1 > u3*");
    expect([...session.tree.ids()]).toEqual(["u1", "a1", "u2", "u3"]);
    expect(session.getBranch().map(({ id }) => id)).toEqual(["u1", "a1", "u3"]);
  });

  test("has its entries in the order of the text, over lines and semicolons", () => {
    expect(shape("u1>a1\n\n  u1 > a2 ; ; a2 > u2")).toEqual([
      "·>u1:message",
      "u1>a1:message",
      "u1>a2:message",
      "a2>u2:message",
    ]);
  });

  test("has its leaf at the star, by a `leaf` line if necessary", async () => {
    expect(shape("u1 > a1* > u2").at(-1)).toBe("a1>leaf-a1:leaf");
    expect(shape("u1 > a1 > u2*")).toHaveLength(3);
    expect((await growTree("u1 > a1 > u2; a1*")).session.leafId).toBe("a1");
    expect((await growTree("u1 > a1 > l1(u1)")).session.leafId).toBe("a1");
  });

  test("has valid entries of every kind, and a valid request", async () => {
    const { session } =
      await growTree(`y1("Prune well.") > m1(anthropic claude-x) > h1(low) > u1("How?") > c1(2) > t1("cut") > t2
      t2 > a1 > b1(ls) > i1 > x1(state "data") > f1(aborted "no") > z1 > u2 > e1(t1 "shorter") > e2(b1) > n1("Pears") > g1
      e2 > k1(u2 "what was") > u3 > a2; u2 > s1(a2) > k2 > u4; a2 > l1(u1 "first") > l2(u2 "second") > l3(u2)*`);
    expect(referenceIssues(session.tree)).toEqual([]);
    expect(session.tree.issues).toEqual([]);
    expect(sessionName(session.tree)).toBe("Pears");
    expect([...labelsInForce(session.tree)].map(([id, { label }]) => `${id} ${label}`)).toEqual(["u1 first"]);
    for (const id of session.tree.ids()) {
      if (["y1", "m1", "h1"].includes(id)) continue;
      const request = buildRequest(session.contextAt(id), { format: anthropicFormat });
      expect(checkAnthropicRequest(request, { strict: true })).toEqual([]);
    }
    expect(session.contextAt("u2")).toMatchObject({
      thinkingLevel: "low",
      model: { modelId: "claude-test" },
    });
  });

  test("has results for the calls on its path, in their order", () => {
    const results = growEntries("u1 > c1(2) > t1 > t2 > t3; c1 > t4")
      .map((entry) => (entry as { message?: { toolCallId?: string } }).message?.toolCallId)
      .filter((id) => id !== undefined);
    expect(results).toEqual(["c1-1", "c1-2", "t3-orphan", "c1-1"]);
  });

  test("accepts text with any characters", () => {
    const [entry] = growEntries(String.raw`u1("a \"quote\", (brackets); > * and ü
on two lines")`);
    expect(entry).toMatchObject({ message: { content: 'a "quote", (brackets); > * and ü\non two lines' } });
  });

  test("has the same bytes each time", () => {
    const text = "u1 > c1 > t1 > a1*; u1 > s1(a1)";
    expect(JSON.stringify(growEntries(text))).toBe(JSON.stringify(growEntries(text)));
  });

  test.each([
    ["u1 a1", "a `>` or `;` is missing"],
    ["u1 > a1; u2 > a1", "a1 has its place already"],
    ["u1(", "no closing parenthesis"],
    ["u1 & a1", "should stand here"],
    ["q1", "No kind of entry begins with q"],
  ])("%s is refused in words", (text, words) => {
    expect(() => growEntries(text)).toThrow(words);
  });
});
