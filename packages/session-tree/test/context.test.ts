import { bytesView } from "@espalier/jsonl-stream";
import {
  anthropicFormat,
  buildRequest,
  buildSessionContext,
  type ContextMessage,
  contextEdit,
  contextOfPath,
  memoryLog,
  readPathWindow,
  referenceIssues,
  type SessionContext,
  SessionTree,
  Tree,
} from "@espalier/session-tree";
import { growEntries, growTree } from "@espalier/session-tree/testing";
import { describe, expect, test } from "vitest";
import { HEADER } from "./arbitrary-log.ts";

const wordOf = (message: ContextMessage): string => {
  if (message.role === "compactionSummary" || message.role === "branchSummary") return message.summary;
  if (message.role === "bashExecution") return message.command;
  return typeof message.content === "string"
    ? message.content
    : message.content.map((block) => ("text" in block ? block.text : block.type)).join();
};
const words = ({ messages }: SessionContext): string => messages.map(wordOf).join(" ");

/** What a grown tree says at its leaf, or at another entry. */
async function said(text: string, at?: string): Promise<string> {
  const { session } = await growTree(text);
  return words(at === undefined ? session.context : session.contextAt(at));
}

describe("the context at a leaf", () => {
  test("has the messages of its path in order, each with its source entry", async () => {
    const { session } = await growTree(
      "y1 > u1 > m1 > a1 > b1 > i1 > x1 > s1(a9) > z1 > c1 > t1; u1 > u2; t1*",
    );
    expect(words(session.context)).toBe("y1 u1 a1 b1 i1 Summary s1 toolCall t1");
    expect(session.context.sources).toEqual(["y1", "u1", "a1", "b1", "i1", "s1", "c1", "t1"]);
    expect(session.context.messages.map(({ role }) => role)).toEqual([
      "system",
      "user",
      "assistant",
      "bashExecution",
      "custom",
      "branchSummary",
      "assistant",
      "toolResult",
    ]);
  });

  test("is empty before the first entry", async () => {
    expect((await growTree("")).session.context).toEqual({
      messages: [],
      sources: [],
      prefixChanged: [],
      tokens: 0,
      model: null,
      thinkingLevel: "off",
    });
    const { session } = await growTree("u1 > a1");
    expect(session.contextAt(null).messages).toEqual([]);
  });

  test("equals the context of the nearest ancestor in the conversation, for an entry outside of it", async () => {
    expect(await said(`u1 > a1 > l1(u1 "x") > n1 > g1; u1 > u2`, "g1")).toBe("u1 a1");
  });
});

describe("a compaction", () => {
  test("comes first in the context and replaces all entries that it does not keep", async () => {
    expect(await said("u1 > a1 > u2 > a2 > k1(u2) > u3")).toBe("Summary k1 u2 a2 u3");
  });

  test("can keep nothing", async () => {
    expect(await said("u1 > a1 > k1 > u2")).toBe("Summary k1 u2");
  });

  test("hides the previous compaction, even if it keeps that entry", async () => {
    expect(await said("u1 > a1 > k1(a1) > u2 > k2(a1) > u3")).toBe("Summary k2 a1 u2 u3");
    expect(await said("u1 > a1 > k1(a1) > u2 > k2(k1) > u3")).toBe("Summary k2 u2 u3");
  });

  test("can keep entries from before the previous compaction", async () => {
    const { session } = await growTree("u1 > a1 > u2 > a2 > k1(a2) > u3");
    expect(words(session.context)).toBe("Summary k1 a2 u3");
    await session.appendCompaction("wider", "a1", 1);
    expect(words(session.context)).toBe("wider a1 u2 a2 u3");
    expect(session.context).toEqual(buildSessionContext(session.tree));
  });

  test("replaces the system messages before it", async () => {
    expect(await said("y1 > u1 > y2 > a1 > k1(u1) > y3 > u2")).toBe("Summary k1 u1 a1 y3 u2");
  });

  test("on another branch changes nothing (T6)", async () => {
    const before = await said("u1 > a1 > u2 > a2; a1 > u3 > a3", "a2");
    expect(await said("u1 > a1 > u2 > a2; a1 > u3 > k1 > a3 > e1(u1); a2*")).toBe(before);
  });

  test("whose first kept entry is not on its path hides nothing and adds nothing", async () => {
    expect(await said("u1 > a1 > k1(nobody) > u2")).toBe("u1 a1 u2");
    expect(await said("u1 > u9; u1 > a1 > k1(u9) > u2")).toBe("u1 a1 u2");
    expect(await said("u1 > k0(u1) > a1 > u2 > k1(nobody) > u3")).toBe("Summary k0 u1 a1 u2 u3");
  });
});

describe("an edit", () => {
  test("removes or replaces content from its position on", async () => {
    const tree = `u1 > a1 > u2 > e1(a1) > u3 > e2(u1 "shorter") > u4`;
    expect(await said(tree)).toBe("shorter u2 u3 u4");
    expect(await said(tree, "u3")).toBe("u1 u2 u3");
    expect(await said(tree, "u2")).toBe("u1 a1 u2");
  });

  test("is replaced by a newer edit of the same entry", async () => {
    expect(await said(`u1 > a1 > e1(u1) > e2(u1 "back") > u2`)).toBe("back a1 u2");
  });

  test("turns the content of answers and results into blocks, and keeps the calls", async () => {
    const { session } = await growTree(`u1 > c1 > t1("long") > e1(t1 "short") > a1 > e2(a1 "brief")`);
    expect(session.context.messages.slice(2)).toMatchObject([
      { role: "toolResult", toolCallId: "c1-1", content: [{ type: "text", text: "short" }] },
      { role: "assistant", content: [{ type: "text", text: "brief" }] },
    ]);
  });

  test("cannot change the text of a summary, but can remove it", async () => {
    expect(await said(`u1 > s1(a9) > b1 > e1(s1 "other") > e2(b1 "other") > u2`)).toBe("u1 Summary s1 b1 u2");
    expect(await said("u1 > a1 > k1(a1) > u2 > e1(k1)")).toBe("a1 u2");
  });

  test("of a hidden entry changes nothing, and has an effect once the entry is kept again", async () => {
    const { session } = await growTree("u1 > a1 > u2 > a2 > k1(a2) > u3");
    await session.append(contextEdit.of({ targetId: "u2", replacement: { content: "edited" } }));
    expect(words(session.context)).toBe("Summary k1 a2 u3");
    await session.appendCompaction("again", "u2", 1);
    expect(words(session.context)).toBe("again edited a2 u3");
  });
});

describe("a changed beginning before a message", () => {
  const changed = async (text: string) => {
    const { context } = (await growTree(text)).session;
    return context.sources.filter((_, at) => context.prefixChanged[at]);
  };

  test("is recorded for the messages that a compaction keeps", async () => {
    expect(await changed("u1 > a1 > u2 > a2 > k1(u2) > u3 > a3")).toEqual(["u2", "a2"]);
    expect(await changed("u1 > a1 > u2 > a2")).toEqual([]);
  });

  test("is recorded for the messages between an edit and its target", async () => {
    expect(await changed("u1 > a1 > u2 > a2 > e1(a1) > u3 > a3")).toEqual(["u2", "a2"]);
    expect(await changed(`u1 > a1 > e1(u1 "x") > u2 > e2(u2 "y") > a3`)).toEqual(["a1"]);
  });

  test("is not recorded for an edit of a hidden entry", async () => {
    expect(await changed("u1 > a1 > u2 > k1 > e1(u1) > u3 > a3")).toEqual([]);
    const later = "u1 > a1 > u2 > k1 > u3 > a3 > e1(u1) > u4";
    expect(await changed(later)).toEqual([]);
    expect(buildSessionContext(growEntries(later)).prefixChanged).toEqual([false, false, false, false]);
  });
});

describe("model and thinking level", () => {
  test("are those of the last change or answer on the path", async () => {
    const tree = "u1 > m1(openai gpt) > h1(low) > u2 > a1 > u3; u2 > u4";
    const { session } = await growTree(tree);
    expect(session.context).toMatchObject({
      model: { provider: "openai", modelId: "gpt" },
      thinkingLevel: "low",
    });
    expect(session.contextAt("u3").model).toEqual({ provider: "anthropic", modelId: "claude-test" });
    expect(session.contextAt("u1")).toMatchObject({ model: null, thinkingLevel: "off" });
  });

  test("are found before a compaction, for every way of reading", async () => {
    const { session } = await growTree("h1(minimal) > m1(openai gpt) > u1 > k1 > u2");
    const { entries, before } = readPathWindow(await session.log.load());
    for (const context of [session.context, contextOfPath(entries, before), session.contextAt("u2")])
      expect(context).toMatchObject({
        model: { provider: "openai", modelId: "gpt" },
        thinkingLevel: "minimal",
      });
  });
});

describe("invalid entries in a file", () => {
  const logOf = (...lines: unknown[]) =>
    memoryLog(Buffer.from(`${[HEADER, ...lines.map((line) => JSON.stringify(line))].join("\n")}\n`));
  const place = (id: string, parentId: string | null) => ({
    id,
    parentId,
    timestamp: "2026-01-01T00:00:00.000Z",
  });

  test.each([
    ["message", {}],
    ["message", { message: null }],
    ["message", { message: "text" }],
    ["message", { message: { role: 7 } }],
    ["model_change", { provider: 5 }],
    ["thinking_level_change", {}],
    ["compaction", { summary: 5, firstKeptEntryId: "a" }],
    ["compaction", { summary: "s" }],
    ["branch_summary", { summary: null }],
    ["custom_message", {}],
    ["context_edit", { replacement: null }],
    ["context_edit", { targetId: "a", replacement: "text" }],
    ["custom", {}],
    ["label", {}],
    ["label", { targetId: "a", label: 5 }],
    ["session_info", { name: 5 }],
    ["usage", { kind: "t" }],
    ["leaf", { targetId: 5 }],
  ])("add nothing to the context and do not stop reading: %s %j", async (type, fields) => {
    const user = (id: string, parentId: string | null) => ({
      type: "message",
      ...place(id, parentId),
      message: { role: "user", content: id, timestamp: 1 },
    });
    const log = logOf(user("a", null), { type, ...place("b", "a"), ...fields }, user("c", "b"));
    const session = await SessionTree.open(log);
    expect(words(session.context)).toBe("a c");
    expect(session.context).toMatchObject({ model: null, thinkingLevel: "off" });
    expect(session.context).toEqual(buildSessionContext(session.tree));
    expect(referenceIssues(session.tree)).toMatchObject([{ kind: "invalid-entry", id: "b" }]);
  });

  test("are counted at any depth of nesting", async () => {
    const deep = `${'{"a":['.repeat(20_000)}${"]}".repeat(20_000)}`;
    const line = JSON.stringify({
      type: "message",
      ...place("b", null),
      message: {
        role: "assistant",
        content: [{ type: "toolCall", id: "1", name: "run", arguments: "DEEP" }],
        provider: "p",
        model: "m",
        timestamp: 1,
      },
    });
    const log = memoryLog(Buffer.from(`${HEADER}\n${line.replace('"DEEP"', deep)}\n`));
    const session = await SessionTree.open(log);
    expect(session.context.tokens).toBe(Math.ceil(("run".length + deep.length) / 4));
  });

  test("can be repaired in a request, and stay unchanged in the file", async () => {
    const { session } = await growTree("u1 > c1(2) > t1");
    const view = await session.log.load();
    const before = Buffer.from(view.read(0, view.size));
    const { messages } = buildRequest(session.context, { format: anthropicFormat });
    expect(JSON.stringify(messages)).toContain("No result was recorded.");
    expect(before.equals((await session.log.load()).read(0, view.size))).toBe(true);
  });
});

test("a context from entries equals the context from their tree", () => {
  const entries = growEntries("u1 > a1 > u2 > a2 > k1(u2) > e1(a2) > u3; a1 > u4* > l1(u1 x)");
  const bytes = Buffer.from(`${[HEADER, ...entries.map((entry) => JSON.stringify(entry))].join("\n")}\n`);
  const tree = new Tree(bytesView(bytes));
  expect(buildSessionContext(entries)).toEqual(buildSessionContext(tree));
  for (const { id } of entries)
    expect(buildSessionContext(entries, id)).toEqual(buildSessionContext(tree, id));
  expect(buildSessionContext(entries, null)).toEqual(buildSessionContext(tree, null));
  expect(() => buildSessionContext(entries, "nobody")).toThrow(
    expect.objectContaining({ code: "unknown-entry" }),
  );
});
