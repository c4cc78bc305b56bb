// Bookkeeping of agents: what views leave out, and the entry that a session opens on.
import { bytesView } from "@espalier/jsonl-stream";
import { type Entry, isBookkeeping, isBookkeepingAt, spokenRow, Tree } from "@espalier/session-tree";
import { expect, test } from "vitest";

const user = (content: unknown) => ({ type: "message", message: { role: "user", content, timestamp: 1 } });
const hidden = (display: boolean) => ({
  type: "custom_message",
  customType: "x.y",
  content: "text",
  display,
});
const picture = { type: "image", data: "aGk=", mimeType: "image/png" };
const reminder = "<system-reminder>\nBe brief.\n</system-reminder>";

const SAMPLES: [what: string, is: boolean, body: object][] = [
  ["a prompt", false, user("hello")],
  ["a prompt in blocks", false, user([{ type: "text", text: "<b>hello</b>" }])],
  ["a prompt after a reminder", false, user(`${reminder}\nhello`)],
  ["an empty prompt", false, user("")],
  ["a picture with a reminder", false, user([picture, { type: "text", text: reminder }])],
  ["a slash command", false, user("<command-name>/clear</command-name>")],
  ["a shell command", false, user("<bash-input>ls</bash-input>")],
  ["a reminder alone", true, user(reminder)],
  ["a reminder in blocks", true, user([{ type: "text", text: `\n${reminder}` }])],
  ["a caveat alone", true, user("<local-command-caveat>Caveat</local-command-caveat>")],
  ["an answer", false, { type: "message", message: { role: "assistant", content: [], timestamp: 1 } }],
  ["a message that an extension shows", false, hidden(true)],
  ["a message that an extension hides", true, hidden(false)],
  ["state of an extension", true, { type: "custom", customType: "claude-code.cost-state", data: {} }],
  ["a change of the model", true, { type: "model_change", provider: "a", modelId: "b" }],
  ["a thinking level", true, { type: "thinking_level_change", thinkingLevel: "high" }],
  ["a name", true, { type: "session_info", name: "n" }],
  ["a compaction", false, { type: "compaction", summary: "s", firstKeptEntryId: "e0", tokensBefore: 1 }],
  ["a branch summary", false, { type: "branch_summary", summary: "s", fromId: "e0" }],
  ["an edit", false, { type: "context_edit", targetId: "e0", replacement: null }],
  ["an entry of an unknown type", false, { type: "acme.note" }],
];

const entries = SAMPLES.map(([, , body], at) => ({
  ...body,
  id: `e${at}`,
  parentId: at === 0 ? null : `e${at - 1}`,
  timestamp: "2026-01-01T00:00:00.000Z",
}));
const tree = new Tree(
  bytesView(new TextEncoder().encode(entries.map((entry) => `${JSON.stringify(entry)}\n`).join(""))),
);

test.each(SAMPLES.map(([what, is], row) => ({ what, is, row })))("$what: $is", ({ is, row }) => {
  expect(isBookkeeping(entries[row] as unknown as Entry)).toBe(is);
  expect(isBookkeepingAt(tree, row)).toBe(is);
});

test("a session opens at the newest conversation entry above its leaf", () => {
  const rowOf = (what: string) => SAMPLES.findIndex(([name]) => name === what);
  expect(spokenRow(tree, rowOf("a name"))).toBe(rowOf("a message that an extension shows"));
  expect(spokenRow(tree, rowOf("a compaction"))).toBe(rowOf("a compaction"));
  expect(spokenRow(tree, -1)).toBe(-1);
});
