import { nothingBilled } from "@espalier/engine/reading";
import type { ParentLink } from "@espalier/session-tree";
import { expect, test } from "vitest";
import { demoModel, modelOf, Scratch } from "./terminal-scratch.ts";

const opened = () => new Scratch().open(demoModel());

const labelled = (scratch: Scratch, label: string): string => {
  const { model } = scratch.state.tree!.view;
  const [row] = [...model.labels].find(([, text]) => text === label)!;
  return model.tree.idAt(row);
};

test("a navigation asks whether to summarize, and passes the choice to the engine", () => {
  const scratch = opened().keys("<", "}", "g");
  const entryId = labelled(scratch, "before-cache");
  expect(scratch.screen).toContain("with a summary of the abandoned branch");
  expect(scratch.screen).toMatch(/Prompt cache: .*4,166/s);
  scratch.keys("s");
  expect(scratch.effects.at(-1)).toEqual({
    type: "act",
    act: { name: "navigate", entryId, summarize: true },
  });
  expect(scratch.screen).toContain("navigating … 0 s  Esc aborts it");
  scratch.keys("escape");
  expect(scratch.effects.at(-1)).toEqual({ type: "abort" });
  scratch.happen({ type: "told", message: "Ended." });
  scratch.keys("g", "f").type("the cache").keys("enter");
  expect(scratch.effects.at(-1)).toMatchObject({ act: { summarize: true, instructions: "the cache" } });
});

test("a billed summary asks for confirmation; other summaries do not", () => {
  const scratch = new Scratch().open(demoModel(), { writer: { name: "anthropic", isBilled: true } });
  scratch.keys("<", "}", "g", "s");
  expect(scratch.screen).toContain("The summary costs money");
  expect(scratch.effects).toEqual([]);
  scratch.keys("n", "g", "n");
  expect(scratch.effects).toHaveLength(1);
});

test("one key hides the entry at the cursor from the model and shows it again; row and preview show the state", () => {
  const at = { timestamp: "2026-03-08T12:00:00.000Z", type: "message" };
  const lines = [
    { ...at, id: "picture", parentId: null, message: { role: "user", content: "A picture.", timestamp: 1 } },
    { ...at, id: "prompt", parentId: "picture", message: { role: "user", content: "And?", timestamp: 2 } },
  ];
  const scratch = new Scratch().open(modelOf(lines)).keys("<", "H");
  const act = { name: "hide", entryId: "picture", hidden: true } as const;
  expect(scratch.effects).toEqual([{ type: "act", act }]);
  expect(scratch.screen).not.toContain("hidden");
  const edit = { ...at, type: "context_edit", id: "edit", parentId: "prompt", targetId: "picture" };
  const grown = modelOf([...lines, { ...edit, replacement: null }]);
  const sentences = ["Hidden from the model, which reads 1 token."];
  scratch.happen(
    { type: "grown", ref: "/sessions/one.jsonl", model: grown },
    { type: "acted", outcome: { value: {}, sentences, entryId: "picture" } },
  );
  expect(scratch.screen).toMatch(/▸○ you +A picture\. +hidden/);
  expect(scratch.screen).toMatch(/you {2}hidden from the model {2}picture ·/);
  scratch.keys("H");
  expect(scratch.effects.at(-1)).toEqual({ type: "act", act: { ...act, hidden: false } });
});

test("the sentences of a dialog are wrapped, not cut", () => {
  const scratch = opened().keys("<", "]", "]", "M");
  expect(scratch.screen.replace(/\s+/g, " ")).toContain("as a branch summary; both branches stay.");
});

test("only one act runs at a time, and none in a read-only session", () => {
  const scratch = opened().keys("u");
  // The first one says what it takes back.
  expect(scratch.screen).toContain("It stays in the file");
  expect(scratch.effects).toEqual([]);
  scratch.keys("u");
  expect(scratch.effects).toEqual([{ type: "act", act: { name: "undo", expected: expect.any(String) } }]);
  scratch.keys("u");
  expect(scratch.effects).toHaveLength(1);
  expect(scratch.screen).toContain("Still undoing.");
  // To write an export is another thing; to compare, and what goes wrong while one reads, ends nothing.
  expect(scratch.keys("e").screen).toContain("Still undoing.");
  scratch.keys("<", "}", "d").happen({ type: "failed", message: "It cannot be read.", wasWork: false });
  expect(scratch.effects.at(-1)).toMatchObject({ type: "compare" });
  expect(scratch.state.work).toMatchObject({ title: "undoing" });
  const reader = new Scratch().open(demoModel(), { readOnly: "This file cannot be written by you." });
  expect(reader.keys("l").screen).toContain("This file cannot be written by you.");
  expect(reader.state.dialog).toBeUndefined();
});

test("a reopened prompt is edited in several lines and appended", () => {
  const scratch = opened().keys("u", "u");
  scratch.happen({
    type: "acted",
    outcome: { value: {}, sentences: ["Taken back."], editorText: "Do it\nagain" },
  });
  expect(scratch.screen).toContain("Edit the message");
  scratch.keys("enter").type("please").keys("up", "home").type("!").keys("ctrl-s");
  expect(scratch.effects.at(-1)).toEqual({
    type: "act",
    act: { name: "append", text: "Do it\n!again\nplease" },
  });
});

test("the text that a fork returns can be edited, also when the whole fork has been loaded", () => {
  const scratch = new Scratch().open(demoModel(), { editorText: "Do it" });
  scratch.type(" again").open(demoModel());
  expect(scratch.screen).toContain("Do it again");
  scratch.keys("ctrl-s");
  expect(scratch.effects.at(-1)).toEqual({ type: "act", act: { name: "append", text: "Do it again" } });
});

test("if another process writes, the user can wait, read, fork or share, and sharing is remembered", () => {
  const act = { name: "undo" } as const;
  const busy = () => opened().keys("u", "u").happen({ type: "busy", act, holder: "Process 1 writes it." });
  expect(busy().screen).toContain("Process 1 writes it.");
  expect(busy().keys("f").effects.at(-1)).toEqual({ type: "act", act, onBusy: "fork" });
  expect(busy().keys("r", "u").screen).toContain("You chose to read this session only");
  const shared = busy().keys("s");
  expect(shared.effects.at(-1)).toEqual({ type: "act", act, onBusy: "share" });
  shared.happen({ type: "told", message: "" }).keys("u");
  expect(shared.effects.at(-1)).toEqual({ type: "act", act, onBusy: "share" });
  expect(busy().keys("w").state.dialog).toBeUndefined();
});

test("two entries are compared: a marked one, or the leaf", () => {
  const scratch = opened().keys("<", "}", "d");
  const { model } = scratch.state.tree!.view;
  const here = labelled(scratch, "before-cache");
  expect(scratch.effects).toEqual([{ type: "compare", a: here, b: model.tree.idAt(model.leafRow) }]);
  scratch.happen({ type: "told", message: "" }).keys("m", "}", "d");
  expect(scratch.effects.at(-1)).toMatchObject({ b: here });
});

test("the costs of two branches are shown as in `espalier diff`, an estimate by its mark", () => {
  const side = { leafId: null, entryIds: [], messages: 2, tokens: 12, files: [] };
  const comparison = {
    commonAncestorId: null,
    a: { ...side, cost: 1.5, estimated: 0.5 },
    b: { ...side, cost: null, estimated: 0 },
  };
  const { screen } = opened().happen({ type: "compared", comparison });
  expect(screen).toContain("2 messages, 12 tokens, ≈ $1.50");
  expect(screen).toContain("2 messages, 12 tokens, unknown");
});

test("one key shows the id, file and folder of the session, and continues it in another agent", () => {
  const scratch = new Scratch(100).open(demoModel());
  expect(scratch.screen.split("\n")[0]).toContain("project  LTfrBGnUynOG");
  scratch.keys("<", "}", "i");
  for (const fact of ["id: LTfrBGnUynOG", "file: /sessions/one.jsonl", "folder: /home/somebody/project"])
    expect(scratch.screen).toContain(fact);
  scratch.keys("y");
  expect(scratch.effects.at(-1)).toMatchObject({ type: "copy", text: "LTfrBGnUynOG" });
  scratch.keys("i", "o");
  const entryId = labelled(scratch, "before-cache");
  expect(scratch.effects.at(-1)).toEqual({ type: "continue", entryId, agent: "codex" });
  expect(scratch.keys("i").screen).not.toContain("in Codex");
  const lines = ["9 entries written to /somewhere.", "Continue with: codex resume 1"];
  scratch.keys("escape").happen({ type: "continued", lines, command: "codex resume 1" });
  for (const text of lines) expect(scratch.screen).toContain(text);
  scratch.keys("y");
  expect(scratch.effects.at(-1)).toMatchObject({ type: "copy", text: "codex resume 1" });
  expect(scratch.state.work).toBeUndefined();
});

test("the first row of a branch represents the whole branch in comparisons and merges", () => {
  const at = { timestamp: "2026-03-08T12:00:00.000Z" };
  const said = (id: string, parentId: string | null) => ({
    ...at,
    ...{ type: "message", id, parentId, message: { role: "user", content: id, timestamp: 1 } },
  });
  const model = modelOf([
    said("question", null),
    { ...at, type: "model_change", id: "change", parentId: "question", provider: "p", modelId: "m" },
    said("left", "change"),
    said("leftmiddle", "left"),
    said("leftlast", "leftmiddle"),
    said("path", "question"),
    said("pathlast", "path"),
  ]);
  const begun = new Scratch().open(model).keys("<", "]", "]");
  expect(begun.selected).toContain("left");
  begun.keys("d");
  expect(begun.effects.at(-1)).toEqual({ type: "compare", a: "leftlast", b: "pathlast" });
  begun.happen({ type: "told", message: "" }).keys("M", "m");
  expect(begun.effects.at(-1)).toEqual({ type: "act", act: { name: "merge", fromId: "leftlast" } });
  // Marked, it is all of the branch too; any other row is its own place.
  begun.happen({ type: "told", message: "" }).keys("m", "down", "d");
  expect(begun.effects.at(-1)).toEqual({ type: "compare", a: "leftmiddle", b: "leftlast" });
});

test("the list is searched while the user types, names at once and then all messages, and opens the selected row", () => {
  const scratch = new Scratch();
  const session = (ref: string, name: string | null, modified: string, parent: ParentLink | null = null) => ({
    id: ref,
    ref,
    cwd: "/home/somebody/boats",
    name,
    firstMessage: "How high is the tide?",
    modified,
    updatedAt: null,
    lastCompaction: null,
    bytes: 1_500,
    parent,
    importedFrom: null,
    agent: "espalier",
  });
  const sessions = [
    session("/s/new.jsonl", null, "2026-03-09T11:00:00Z"),
    session("/s/old.jsonl", "Harbour lights", "2026-03-01T11:00:00Z"),
    session("/s/work.jsonl", "Lamps counted", "2026-03-08T11:00:00Z", {
      sessionId: "/s/new.jsonl",
      entryId: null,
      kind: "subagent",
    }),
  ];
  scratch.happen({ type: "sessions", sessions, isDone: true });
  expect(scratch.screen).toMatch(/▸ How high is the tide\? ▸1 +espalier +boats +1 h +·/);
  expect(scratch.effects).toEqual([{ type: "read-facts", sessions: sessions.slice(0, 2) }]);
  // From the list there is nowhere to go back to.
  expect(scratch.screen).toMatch(/Enter open.*\? help {2}q quit/);
  expect(scratch.screen).not.toContain("Esc");
  const bill = { ...nothingBilled(), calls: 2, cost: 1.5, estimated: 0.5 };
  scratch.happen({ type: "facts", ref: "/s/new.jsonl", facts: { branches: 3, bill } });
  expect(scratch.screen).toMatch(/boats +1 h +≈ \$1\.50/);
  // The run of a sub-agent is there when it is asked for.
  expect(scratch.screen).toContain("2 sessions");
  expect(scratch.screen).not.toContain("Lamps counted");
  scratch.keys("a");
  expect(scratch.screen).toMatch(/3 sessions[\s\S]*How high[\s\S]*└ Lamps counted[\s\S]*Harbour/);
  expect(scratch.effects.at(-1)).toEqual({ type: "read-facts", sessions: [sessions[2], sessions[1]] });
  scratch.keys("a");
  expect(scratch.screen).not.toContain("Lamps counted");
  scratch.keys("s", "s", "s");
  scratch.keys("/").type("lights");
  expect(scratch.effects.at(-1)).toEqual({ type: "search", query: "lights", filter: {} });
  const hit = {
    file: "/s/new.jsonl",
    sessionId: "new",
    entryId: "e7",
    role: "user",
    snippet: "the lights go out",
    onPath: true,
  };
  scratch.happen({ type: "hits", query: "lights", hits: [hit], isDone: true });
  expect(scratch.screen).toMatch(/▸ Harbour lights/);
  expect(scratch.screen).toMatch(/How high is the tid… you +the lights go out/);
  const far = { ...hit, role: "toolResult", snippet: `${"before it ".repeat(20)}the LIGHTS` };
  scratch.happen({ type: "hits", query: "lights", hits: [hit, far], isDone: true });
  expect(scratch.screen).toMatch(/tool +….*the LIGHTS/);
  // These characters are two columns wide.
  const wide = { ...hit, snippet: `${"조수 간만의 차 ".repeat(4)}lights 등대` };
  scratch.happen({ type: "hits", query: "lights", hits: [hit, wide], isDone: true });
  expect(scratch.screen).toMatch(/you +….*lights 등대/);
  scratch.keys("down", "enter");
  expect(scratch.effects.at(-1)).toEqual({ type: "open", ref: "/s/new.jsonl", entryId: "e7" });
  scratch.keys("escape");
  expect(scratch.screen).not.toContain("search:");

  // Sessions are filtered by date, project and agent, as `espalier list` does.
  scratch.keys("f", "s").type("soon").keys("enter");
  expect(scratch.screen).toContain("soon is not a time");
  scratch
    .keys("f", "s")
    .type("2026-03-05")
    .keys("enter", "f", "p", "ctrl-u")
    .type("boats")
    .keys("enter", "f", "o");
  const filter = { since: new Date("2026-03-05T00:00:00"), project: "boats", agent: "codex" };
  expect(scratch.effects.at(-1)).toEqual({ type: "list-sessions", filter });
  expect(scratch.screen).toContain("since 2026-03-05 00:00 · in boats · codex");
  scratch.happen({ type: "sessions", sessions: [], isDone: true });
  expect(scratch.screen).toContain("No session matches the filter; f changes it.");
  scratch.keys("f", "x");
  expect(scratch.effects.at(-1)).toEqual({ type: "list-sessions", filter: {} });
});

test("all keys are in the help, and every hint belongs to a key with a function", () => {
  const scratch = opened().keys("?");
  const help: string[] = [];
  for (let page = 0; page < 12; page++) {
    help.push(scratch.screen);
    scratch.keys("pagedown");
  }
  for (const title of [
    "continue from this entry",
    "search in this session",
    "suspend",
    "quit",
    "compact: the plan first",
  ])
    expect(help.join("\n")).toContain(title);
  expect(scratch.keys("escape").state.dialog).toBeUndefined();
});

test("one key lists the user's rules; at the leaf they are added and removed", () => {
  const at = { timestamp: "2026-03-08T12:00:00.000Z", type: "message" };
  const said = (id: string, parentId: string | null, content: string) => ({
    ...at,
    id,
    parentId,
    message: { role: "user", content, timestamp: 1 },
  });
  const lines = [
    said("first", null, "A reef map. Never push."),
    said("second", "first", "Always run the linter. And then?"),
  ];
  const scratch = new Scratch().open(modelOf(lines)).keys("<", "r");
  expect(scratch.screen).toContain("1 Never push (never)");
  expect(scratch.screen).not.toContain("linter (always)");
  expect(scratch.screen).not.toContain("add a rule");
  scratch.keys("escape", ">", "r");
  expect(scratch.screen).toContain("2 Always run the linter (always)");
  scratch.keys("2");
  expect(scratch.effects).toEqual([{ type: "act", act: { name: "rules", drop: "second:0" } }]);
  scratch.happen({ type: "told", message: "Ended." }).keys("r", "a").type("answer in English").keys("enter");
  expect(scratch.effects.at(-1)).toEqual({ type: "act", act: { name: "rules", add: "answer in English" } });
  const withoutFinding = new Scratch().open(modelOf(lines), { isFinding: false }).keys("r");
  expect(withoutFinding.screen).toContain("The user has set no rule on this path.");
});
