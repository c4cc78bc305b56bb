import { defineEntry } from "@espalier/session-tree";
import { growTree } from "@espalier/session-tree/testing";
import { expect, test } from "vitest";
import { treeModel } from "../src/terminal/tree/tree-model.ts";
import { contextLines, readContext, readPathUsage, usageLines } from "../src/terminal/view/tabs.ts";
import { demoModel, modelOf, Scratch } from "./terminal-scratch.ts";

const user = (id: string, parentId: string | null, content = id) => ({
  type: "message",
  id,
  parentId,
  timestamp: "2026-03-08T12:00:00.000Z",
  message: { role: "user", content, timestamp: 1 },
});
const answer = (id: string, parentId: string, text = id) => ({
  type: "message",
  id,
  parentId,
  timestamp: "2026-03-08T12:00:00.000Z",
  message: {
    role: "assistant",
    content: [{ type: "text", text }],
    provider: "p",
    model: "m",
    stopReason: "stop",
    timestamp: 1,
  },
});

/** Two branches behind the first answer, of which the second one is the path. */
const forked = () =>
  modelOf([
    user("question", null),
    answer("thought1", "question"),
    answer("thought2", "thought1"),
    user("leftuser", "thought2"),
    answer("leftmodel", "leftuser"),
    user("pathuser", "thought2"),
    answer("pathmodel", "pathuser"),
    answer("pathlast", "pathmodel"),
  ]);

const rows = (scratch: Scratch): string[] =>
  scratch.screen
    .split("\n")
    .slice(1, 12)
    .map((text) => text.replace(/ +1 day.*$/, "").trimEnd())
    .filter((text) => text.trim() !== "");

test("a turn is one row, a branch is indented at its fork, and the path and its leaf are marked", () => {
  expect(rows(new Scratch().open(forked()))).toEqual([
    " ● you   question                                                 ▸1",
    " ● model thought2",
    " ├─· you   leftuser",
    " │ · model leftmodel",
    " ● you   pathuser                                                 ▸1",
    "▸● model pathlast                                                  *",
  ]);
});

test("a session without a name has its first prompt as title", () => {
  expect(new Scratch().open(forked()).screen).toMatch(/^ question +project/);
  // Slash commands without arguments are not prompts.
  const begun = (...texts: string[]) =>
    modelOf(texts.map((text, at) => user(`u${at}`, at === 0 ? null : `u${at - 1}`, text)));
  const clear = "<command-name>/clear</command-name>\n<command-args></command-args>";
  expect(new Scratch().open(begun(clear, "/mode", "What now?")).screen).toMatch(/^ What now\? +project/);
  expect(new Scratch().open(begun("/mode")).screen).toMatch(/^ \(no prompt yet\) +project/);
});

test("Space shows the entries of a turn and hides them again; on a branch it folds the branch", () => {
  const scratch = new Scratch().open(forked()).keys("<", " ");
  expect(rows(scratch)[1]).toBe(" ● model thought1");
  scratch.keys(" ");
  expect(rows(scratch)[1]).toBe(" ● model thought2");
  scratch.keys("down", "down", "down", "left");
  expect(scratch.selected).toContain("leftuser");
  expect(rows(scratch)).toHaveLength(5);
  expect(scratch.selected).toContain("▸▸1");
  scratch.keys("right");
  expect(rows(scratch)).toHaveLength(6);
});

test("jumps lead to forks, to the parent, to the other side and to the leaf", () => {
  const scratch = new Scratch().open(forked());
  const selects = (key: string) => scratch.keys(key).selected.replace(/.*(?:you|model) +(\S+).*/, "$1");
  expect(selects("<")).toBe("question");
  expect(selects("]")).toBe("thought2");
  expect(selects("]")).toBe("leftuser");
  expect(selects("o")).toBe("pathuser");
  expect(selects("o")).toBe("leftuser");
  expect(selects("p")).toBe("thought2");
  expect(selects("[")).toBe("thought2");
  expect(scratch.screen).toContain("No branch starts further up.");
  expect(selects(".")).toBe("pathlast");
});

test("a session that is opened at an entry of bookkeeping shows bookkeeping, with the cursor on the entry", () => {
  const reminder = user("reminder", "thought", "<system-reminder>The tide table is open.</system-reminder>");
  const model = modelOf([
    user("question", null),
    answer("thought", "question"),
    reminder,
    user("last", "reminder"),
  ]);
  expect(new Scratch().open(model).screen).not.toContain("tide table");
  const scratch = new Scratch().open(model, { entryId: "reminder" });
  expect(scratch.selected).toContain("The tide table is open.");
  // The second event of an opening leaves the cursor where it is.
  expect(scratch.open(model).selected).toContain("The tide table is open.");
});

test("filters show only matching rows, and the cursor stays on a visible one", () => {
  const scratch = new Scratch().open(demoModel());
  expect(scratch.screen).toContain("· turns");
  scratch.keys("f");
  expect(scratch.screen).toContain("tools hidden");
  expect(rows(scratch).some((row) => / tool /.test(row))).toBe(false);
  scratch.keys("f");
  expect(scratch.screen).toContain("users only");
  expect(rows(scratch).every((row) => / you {2}/.test(row))).toBe(true);
  scratch.keys("f");
  expect(rows(scratch).every((row) => row.includes("["))).toBe(true);
  expect(scratch.selected).toContain("[works-offline]");
  scratch.keys("f");
  expect(scratch.screen).toContain("everything");
});

test("an entry that is not a message has the name of its kind, an extension's in at most five columns", async () => {
  const { session } = await growTree("u1 > m1(p m) > h1(high)*");
  const kind = defineEntry("garden.weather", { movesLeaf: true, title: "weather", draw: () => "21 °C" });
  session.registerKind(kind);
  await session.append(
    ["garden.weather", "garden.unknown"].map((type) => ({ type, timestamp: "2026-03-08T12:00:00Z" })),
  );
  const scratch = new Scratch().open(treeModel(session.tree)).keys("f", "f", "f", "f");
  expect(rows(scratch).map((row) => row.replace(/ +\d+ days.*$/, ""))).toEqual([
    "▸● you   u1",
    " · uses  p/m",
    " · think high",
    " ● weat… 21 °C",
    " ● ·     garden.unknown                                            *",
  ]);
});

test("a key jumps from label to label", () => {
  const scratch = new Scratch().open(demoModel()).keys("<", "}");
  expect(scratch.selected).toContain("[before-cache]");
  scratch.keys("}", "{");
  expect(scratch.selected).toContain("[before-cache]");
});

test("a search follows the typed text; Enter stays at the hit, n and N move on, Esc ends only the search", () => {
  const scratch = new Scratch().open(forked()).keys("<", "/").type("left");
  expect(scratch.effects.at(-1)).toEqual({ type: "find", query: "left" });
  const entryIds = ["leftuser", "leftmodel"];
  scratch.happen({ type: "found", query: "left", entryIds: ["leftuser"], isDone: false });
  expect(scratch.selected).toContain("leftuser");
  scratch.happen({ type: "found", query: "left", entryIds, isDone: true });
  expect(scratch.screen).toContain("1 of 2");
  scratch.keys("enter");
  expect(scratch.screen).toContain("Place 1 of 2 with left");
  scratch.keys("n");
  expect(scratch.selected).toContain("leftmodel");
  expect(scratch.screen).toContain("2 of 2 with left");
  scratch.keys("N");
  expect(scratch.selected).toContain("leftuser");
  scratch.keys("escape");
  expect(scratch.screen).not.toContain("with left");
  expect(scratch.selected).toContain("leftuser");
  expect(scratch.state.tree).toBeDefined();

  // Another query replaces the old one, and finds what is folded.
  scratch.keys("/").type("thought1");
  scratch.happen({ type: "found", query: "thought1", entryIds: ["thought1"], isDone: true });
  expect(scratch.selected).toContain("thought1");
  scratch.keys("escape");
  expect(scratch.selected).toContain("leftuser");
  scratch.keys("/").type("zzz");
  scratch.happen({ type: "found", query: "zzz", entryIds: [], isDone: true });
  expect(scratch.screen).toContain("nothing found");
  scratch.keys("enter");
  expect(scratch.screen).toContain("No entry contains zzz.");
  scratch.keys("escape", "escape");
  expect(scratch.state.tree).toBeUndefined();
});

const state = (id: string, parentId: string | null) => ({
  type: "custom",
  id,
  parentId,
  timestamp: "2026-03-08T12:00:00.000Z",
  customType: "claude-code.cost-state",
  data: { totalCostUSD: 1 },
});

test("bookkeeping has no line and no branch until b shows it; a session opens at its last message", () => {
  const reminder = user("reminder", "said", "<system-reminder>Be brief.</system-reminder>");
  const model = modelOf([
    user("question", null),
    answer("said", "question"),
    state("aside", "said"),
    reminder,
    user("next", "reminder"),
    state("cost", "next"),
  ]);
  const scratch = new Scratch().open(model);
  expect(rows(scratch)).toEqual([
    expect.stringMatching(/^ ● you {3}question +▸1$/),
    expect.stringMatching(/^▸● you {3}next +\*$/),
  ]);
  expect(scratch.screen).toContain("6 entries · 1 branch ·");
  scratch.keys("g");
  expect(scratch.screen).toContain("Continue from here");
  scratch.keys("escape", "b");
  expect(scratch.screen).toContain("3 entries of bookkeeping shown.");
  expect(scratch.screen).toContain("6 entries · 2 branches ·");
  expect(scratch.screen).toMatch(/├─· state claude-code.cost-state/);
  expect(scratch.selected).toContain("next");
  scratch.keys("b");
  expect(rows(scratch)).toHaveLength(2);
});

test("white space in prompts, arguments and results is kept", () => {
  const call = {
    type: "toolCall",
    id: "c1",
    name: "write",
    arguments: { text: "    four\n        eight" },
  };
  const model = modelOf([
    user("question", null, "look:\n    indented\n\n# no heading   here"),
    { ...answer("calls", "question"), message: { ...answer("calls", "question").message, content: [call] } },
    {
      type: "message",
      id: "result",
      parentId: "calls",
      timestamp: "2026-03-08T12:00:00.000Z",
      message: {
        role: "toolResult",
        toolCallId: "c1",
        toolName: "write",
        content: [{ type: "text", text: "  two\n      six" }],
        isError: false,
        timestamp: 1,
      },
    },
    answer("end", "result"),
  ]);
  const scratch = new Scratch(80, 50).open(model).keys("<", "enter", "z");
  const lines = scratch.screen.split("\n").map((text) => text.trimEnd());
  for (const kept of ["    indented", "# no heading   here", "          four", "              eight"])
    expect(lines).toContain(kept);
  for (const kept of ["    two", "        six"]) expect(lines).toContain(kept);
});

test("the preview requests the context at the cursor, and shows it", () => {
  const scratch = new Scratch().open(forked()).keys("tab");
  const { cursor } = scratch.state.tree!;
  expect(scratch.effects.at(-1)).toEqual({ type: "read-tab", tab: "context", row: cursor });
  const value = {
    tokens: 50_000,
    model: "p/m",
    contextWindow: undefined,
    thinkingLevel: "off",
    hidden: "The compaction x stands for 3 older entries.",
    messages: [{ role: "user" as const, tokens: 50_000, gist: "all of it", isSent: true }],
  };
  scratch.happen({
    type: "tab",
    tab: "context",
    row: cursor,
    lines: (columns) => contextLines(value, columns),
  });
  expect(scratch.screen).toMatch(/1 message, 50,000 tokens · p\/m/);
  expect(scratch.screen).toContain("25 % of an assumed window of 200,000");
  expect(scratch.screen).toContain("stands for 3 older entries");
  expect(scratch.screen).toMatch(/50,000 {2}you {6}all of it/);
  const known = { ...value, contextWindow: 1_000_000 };
  scratch.happen({
    type: "tab",
    tab: "context",
    row: cursor,
    lines: (columns) => contextLines(known, columns),
  });
  expect(scratch.screen).toContain("5 % of the model's window of 1,000,000; it is compacted above 983,616");
  scratch.keys("up");
  expect(scratch.effects.at(-1)).toMatchObject({ type: "read-tab", tab: "context" });
});

test("the context window is that of the model, if known", () => {
  const by = (provider: string, model: string) => {
    const { tree, leafId } = modelOf([
      user("question", null),
      { ...answer("reply", "question"), message: { role: "assistant", content: [], provider, model } },
    ]);
    return readContext(tree, leafId!).contextWindow;
  };
  expect(by("anthropic", "claude-opus-4-8-20260101")).toBe(1_000_000);
  expect(by("anthropic", "claude-of-tomorrow")).toBeUndefined();
  expect(by("elsewhere", "claude-opus-4-8")).toBeUndefined();
});

test("a session that grows is updated on the screen; a cursor on the leaf follows the leaf, others stay", () => {
  const lines = [user("question", null), answer("thought1", "question"), user("next", "thought1")];
  const grown = () => modelOf([...lines, answer("reply", "next")]);
  const follower = new Scratch().open(modelOf(lines));
  follower.happen({ type: "grown", ref: "/sessions/one.jsonl", model: grown() });
  expect(follower.selected).toContain("reply");
  const reader = new Scratch().open(modelOf(lines)).keys("<");
  reader.happen({ type: "grown", ref: "/sessions/one.jsonl", model: grown() });
  expect(reader.selected).toContain("question");
  expect(reader.screen).toContain("reply");
});

test("navigating a hundred thousand entries reads no more than a screen of them", () => {
  const lines: object[] = [user("e0", null)];
  for (let at = 1; at < 100_000; at++)
    lines.push(at % 10 === 0 ? user(`e${at}`, `e${at - 1}`) : answer(`e${at}`, `e${at - 1}`));
  const scratch = new Scratch().open(modelOf(lines));
  const { tree } = scratch.state.tree!.view.model;
  let read = 0;
  const { entryAt } = tree;
  tree.entryAt = (row) => {
    read++;
    return entryAt.call(tree, row);
  };
  scratch.keys("pageup");
  view(scratch);
  expect(read).toBeLessThan(120);
  scratch.keys("<");
  view(scratch);
  expect(scratch.selected).toContain("e0");
  expect(read).toBeLessThan(240);
});

const view = (scratch: Scratch): string => scratch.screen;

test("on a narrow screen the current tab keeps its name, and the number of further lines is shown", () => {
  const scratch = new Scratch().open(demoModel()).keys("2");
  const { model } = scratch.state.tree!.view;
  const { cursor } = scratch.state.tree!;
  const context = readContext(model.tree, model.tree.idAt(cursor));
  scratch.happen({
    type: "tab",
    tab: "context",
    row: cursor,
    lines: (columns) => contextLines(context, columns),
  });
  expect(scratch.screen).toMatch(/^─ 1 ─\[2 what the model reads here\]─ 3 ──+ +\d+ more ↓$/m);
  scratch.happen({ type: "resize", columns: 100, rows: 24 });
  expect(scratch.screen).toMatch(/─ 1 what was said ─\[2 .*\]─ 3 usage and cost ──+ +\d+ more ↓$/m);
});

test("the cost of a path has a column for tokens that were paid again, and lists each break", async () => {
  const scratch = new Scratch(200, 60).open(demoModel()).keys("3");
  const { cursor, view } = scratch.state.tree!;
  const usage = await readPathUsage(view.model, cursor, async () => {});
  expect(usage.breaks.length).toBeGreaterThan(5);
  expect(usage.total.anew).toBe(usage.breaks.reduce((sum, { tokens }) => sum + tokens, 0));
  scratch.happen({ type: "tab", tab: "usage", row: cursor, lines: (columns) => usageLines(usage, columns) });
  expect(scratch.screen).toMatch(/calls +input +output +cached +paid again +cost/);
  expect(scratch.screen).toMatch(/breaks of the prompt cache/);
  expect(scratch.screen).toMatch(/9,770 tokens paid again \$0\.03 {2}a compaction/);
});

test("a long notice is wrapped to several lines, and the cursor stays visible", () => {
  const message = `Undone: ${"a prompt with many words ".repeat(4)}. The model reads 12,345 tokens.`;
  for (const columns of [80, 120]) {
    const scratch = new Scratch(columns, 24).open(demoModel());
    const [heading, ...before] = scratch.screen.split("\n");
    scratch.happen({ type: "warned", message });
    const [same, ...after] = scratch.screen.split("\n");
    expect(same).toBe(heading);
    expect(after).toHaveLength(before.length);
    expect(after.slice(-2).join(" ").replace(/\s+/g, " ").trim()).toBe(message);
    expect(scratch.screen).toMatch(/^▸● model 0\.6\.0/m);
    const row = scratch.screen.split("\n").findIndex((text) => text.includes("Plain lines it is"));
    scratch.happen({ type: "click", row });
    expect(scratch.screen).toMatch(/^▸● you {3}Plain lines it is/m);
  }
});

test("causes of breaks of the prompt cache are wrapped, not cut", async () => {
  const scratch = new Scratch(80, 60).open(demoModel()).keys("3");
  const { cursor, view } = scratch.state.tree!;
  const usage = await readPathUsage(view.model, cursor, async () => {});
  const breaks = usage.breaks.map((one) => ({ ...one, tokens: 1_234_567, cause: "restart" as const }));
  const lines = (columns: number) => usageLines({ ...usage, breaks }, columns);
  scratch.happen({ type: "tab", tab: "usage", row: cursor, lines }).keys("enter");
  expect(scratch.screen).toMatch(
    /1,234,567 tokens paid again \S+ {2}a restart, or a time\s+in the system prompt/,
  );
});

test("the help describes the keys of the reading pane", () => {
  const scratch = new Scratch(80, 100).open(demoModel()).keys("enter");
  expect(scratch.screen).toMatch(/↑↓ scroll.*←→ other rows.*Esc back.*q quit$/);
  scratch.keys("?");
  expect(scratch.screen).toMatch(
    /While reading[\s\S]*Space +a screen down[\s\S]*→ +to the next row of the tree/,
  );
});
