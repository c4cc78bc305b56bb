import {
  queryHistory,
  queryHistoryAnthropicTool,
  queryHistoryOpenaiTool,
  queryHistoryTool,
  runQueryHistory,
} from "@espalier/compaction/policies";
import { compaction, contextEdit, message, type SessionTree } from "@espalier/session-tree";
import { growTree } from "@espalier/session-tree/testing";
import { expect, test } from "vitest";
import { calling, result, user } from "./conversation.ts";

/** Two branches; on the one of the leaf the beginning is compacted away. */
async function session(): Promise<SessionTree> {
  const { session } = await growTree("u1 > a1 > u2 > a2; a1 > u3 > a3");
  await session.append([
    message.of({ id: "q", message: user("where is the Red key?") }),
    message.of({ id: "call", message: calling("x") }),
    message.of({ id: "found", message: result("x", "the key is under the red stone") }),
    compaction.of({ id: "c", summary: "looked for a key", firstKeptEntryId: "call", tokensBefore: 9 }),
  ]);
  return session;
}

test("finds entries by all their words, in any case and order, with the summary that replaces them", async () => {
  expect(queryHistory(await session(), { query: "RED key" })).toEqual([
    {
      entryId: "q",
      role: "user",
      text: "where is the Red key?",
      timestamp: expect.any(String),
      covered: true,
      onPath: true,
    },
    {
      entryId: "found",
      role: "toolResult",
      text: "the key is under the red stone",
      timestamp: expect.any(String),
      covered: false,
      onPath: true,
    },
  ]);
});

test("finds calls by their tool and arguments", async () => {
  expect(queryHistory(await session(), { query: "read x.txt" }).map(({ entryId }) => entryId)).toEqual([
    "call",
  ]);
});

test("includes other branches, marked as such", async () => {
  const marks = queryHistory(await session(), {}).map(({ entryId, onPath }) => [entryId, onPath]);
  expect(marks).toContainEqual(["u2", false]);
  expect(marks).toContainEqual(["u1", true]);
});

test("a range is a part of a path with both ends; the summary itself is not an original", async () => {
  const found = async (range: { from?: string; to?: string }) =>
    queryHistory(await session(), { range, limit: 50 }).map(({ entryId }) => entryId);
  expect(await found({ from: "a1", to: "a3" })).toEqual(["a1", "u3", "a3"]);
  expect(await found({ from: "q" })).toEqual(["q", "call", "found"]);
  expect(await found({ to: "a2" })).toEqual(["u1", "a1", "u2", "a2"]);
  expect(await found({ from: "u2" })).toEqual(["u2"]);
});

test("a limit keeps the newest, oldest first; the default is ten", async () => {
  const tree = await session();
  expect(queryHistory(tree, { limit: 2 }).map(({ entryId }) => entryId)).toEqual(["call", "found"]);
  await tree.append(Array.from({ length: 12 }, (_, at) => message.of({ message: user(`more ${at}`) })));
  expect(queryHistory(tree, {})).toHaveLength(10);
});

test("an unknown end of a range is an error for programs, and an answer for models", async () => {
  const tree = await session();
  expect(() => queryHistory(tree, { range: { from: "nobody" } })).toThrow(/nobody/);
  expect(runQueryHistory(tree, { from: "nobody" })).toMatch(/There is no entry "nobody"/);
});

test("the tool answers with text, ids and marks", async () => {
  const tree = await session();
  expect(runQueryHistory(tree, { query: "red stone" })).toMatch(
    /^\[found\] toolResult, .*\nthe key is under/,
  );
  expect(runQueryHistory(tree, { query: "where" })).toMatch(/\(covered by a summary\)/);
  expect(runQueryHistory(tree, { from: "u2", to: "u2" })).toMatch(/\(on another branch\)/);
  expect(runQueryHistory(tree, { query: "unicorn" })).toBe("No message of this conversation matches.");
  expect(runQueryHistory(tree, "nonsense")).toContain("[found]");
});

test("the tool does not find what a user hid, also after a compaction and on another branch", async () => {
  const grown = await session();
  await grown.append(contextEdit.of({ targetId: "found", replacement: null, reason: "manual" }));
  await grown.append(contextEdit.of({ targetId: "call", replacement: null }));
  await grown.append(
    compaction.of({ id: "c2", summary: "looked on", firstKeptEntryId: "c2", tokensBefore: 9 }),
  );
  expect(runQueryHistory(grown, { query: "red stone" })).toBe("No message of this conversation matches.");
  expect(runQueryHistory(grown, { query: "read x.txt" })).toContain("[call]");
  expect(queryHistory(grown, { query: "red stone" })).toHaveLength(1);
  await grown.append({
    ...contextEdit.of({ targetId: "u2", replacement: null, reason: "manual" }),
    parentId: "a2",
  });
  await grown.append({ ...message.of({ message: user("elsewhere") }), parentId: "a1" });
  expect(runQueryHistory(grown, { query: "u2" })).not.toContain("[u2]");
});

test("long results are cut so that all of them together fit", async () => {
  const tree = await session();
  await tree.append(
    Array.from({ length: 5 }, () => message.of({ message: user(`needle ${"x".repeat(100_000)}`) })),
  );
  const said = runQueryHistory(tree, { query: "needle" });
  expect(said.length).toBeLessThan(26_000);
  expect(said.match(/characters left out/g)).toHaveLength(5);
});

test("the definitions for both providers describe the same tool", () => {
  const { name, description, parameters } = queryHistoryTool;
  expect(name).toBe("query_history");
  expect(queryHistoryAnthropicTool).toEqual({ name, description, input_schema: parameters });
  expect(queryHistoryOpenaiTool).toEqual({
    type: "function",
    function: { name, description, parameters },
  });
});
