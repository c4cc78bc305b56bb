import { rulesOn } from "@espalier/compaction";
import { compaction, defineEntry, entryKinds, movingRow, pathOf, type Tree } from "@espalier/session-tree";
import { growTree } from "@espalier/session-tree/testing";
import {
  compactionAt,
  contextViewAt,
  factsOf,
  findText,
  gistAt,
  growthTo,
  OutlineRows,
  originsOf,
  outlineOf,
  ROW_KINDS,
  spendingOf,
  treeReader,
} from "@espalier/viewer/model";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { arbitraryTree, treeOf } from "./arbitrary-tree.ts";

const sum = (counts: readonly number[]): number => counts.reduce((total, count) => total + count, 0);

describe("the outline of a session", () => {
  test("has every parent, whatever ranges are requested", () => {
    fc.assert(
      fc.property(arbitraryTree, fc.integer({ min: 1, max: 40 }), (tree, size) => {
        const rows = new OutlineRows();
        for (let from = 0; from < tree.length; from += size) rows.add(outlineOf(tree, from, from + size));
        expect(rows.length).toBe(tree.length);
        for (let row = 0; row < tree.length; row++) {
          expect(rows.index.parent(row)).toBe(Math.max(-1, tree.index.parent(row)));
          expect(rows.kindAt(row).movesLeaf).toBe(tree.kindAt(row).movesLeaf);
        }
      }),
    );
  });

  test("has the role of each message, however its line was written", () => {
    const message = { role: "assistant", content: [{ type: "text", text: '"message":{"role":"user"' }] };
    const tree = treeOf([
      { type: "message", id: "a", parentId: null, timestamp: "", message },
      { message: { content: "late", role: "user" }, timestamp: "", parentId: "a", id: "b", type: "message" },
      {
        type: "message",
        id: "c",
        parentId: "b",
        timestamp: "",
        details: { message: { role: "user" } },
        message,
      },
      { type: "message", id: "d", parentId: "c", timestamp: "", message: { role: "constructor" } },
      { type: "constructor", id: "e", parentId: "d", timestamp: "" },
    ]);
    expect(outlineOf(tree).kinds).toBe("aua??");
  });

  test("knows which entries of any kind move the leaf", () => {
    const types = ["garden.unknown", ...entryKinds.flatMap(({ type }) => type || [])];
    const tree = treeOf(types.map((type, at) => ({ type, id: `e${at}`, parentId: null, timestamp: "" })));
    const rows = new OutlineRows();
    rows.add(outlineOf(tree));
    for (let row = 0; row < tree.length; row++)
      expect([types[row], rows.kindAt(row).movesLeaf]).toEqual([types[row], tree.kindAt(row).movesLeaf]);
  });

  test("has an entry of an extension as its message if the model reads it", async () => {
    const { session } = await growTree("u1*");
    session.registerKind(defineEntry("garden.note", { movesLeaf: true, toMessages: () => [] }));
    await session.append([{ type: "garden.note" }, { type: "garden.unknown" }]);
    expect(outlineOf(session.tree).kinds).toBe("ux?");
  });

  test("ignores a range after a gap, and adds an overlapping one once", () => {
    const rows = new OutlineRows();
    rows.add({ from: 5, steps: [1], kinds: "u" });
    expect(rows.length).toBe(0);
    rows.add({ from: 0, steps: [0, 1], kinds: "ua" });
    rows.add({ from: 1, steps: [1, 1], kinds: "at" });
    expect([rows.length, rows.kind(2)]).toEqual([3, "t"]);
  });
});

describe("what the model reads", () => {
  test("the growth along a path equals the context at each entry, continued from any other path", async () => {
    await fc.assert(
      fc.asyncProperty(arbitraryTree, fc.nat(), async (tree, other) => {
        await growthTo(tree, movingRow(tree, other % tree.length));
        const end = movingRow(tree, tree.length - 1);
        const { points, steps, window } = await growthTo(tree, end);
        expect(window).toBe(contextViewAt(tree, end).window);
        expect([steps > 0, points.at(-1)?.row ?? -1]).toEqual([end >= 0, end]);
        // The steps are those of the page's slider.
        const shown = new OutlineRows();
        shown.add(outlineOf(tree));
        const path = shown.path(end);
        expect(steps).toBe(path.length);
        expect(points.map(({ at }) => path[at])).toEqual(points.map(({ row }) => row));
        for (const { row, tokens } of points) {
          const view = contextViewAt(tree, row);
          expect(sum(tokens)).toBe(view.total);
          expect(sum(view.tokens)).toBe(view.total);
          expect(sum(view.pieces.map((piece) => piece.tokens))).toBe(view.total);
        }
      }),
    );
  });

  test("the points of a long path show the context before and after each compaction", async () => {
    const text = Array.from({ length: 4_000 }, (_, at) =>
      at === 2_001 ? "k1" : `${at % 2 ? "a" : "u"}${at}`,
    );
    const { session } = await growTree(text.join(" > "));
    const { points, steps } = await growthTo(session.tree, session.tree.length - 1);
    const bite = points.findIndex(({ row }) => compaction.is(session.tree.entryAt(row)));
    expect(steps).toBe(4_000);
    expect(points.length).toBeLessThan(2_100);
    expect(points[bite - 1]!.at).toBe(points[bite]!.at - 1);
    expect(sum(points[bite]!.tokens)).toBeLessThan(sum(points[bite - 1]!.tokens));
  });
});

test("a path with many compactions shows each of them, and points between them", async () => {
  const said = (id: number, parent: number | null) => ({
    type: "message",
    id: `e${id}`,
    parentId: parent === null ? null : `e${parent}`,
    timestamp: "",
    message: { role: "user", content: "word ".repeat(8), timestamp: 1 },
  });
  const edits = 1_500;
  const lines: object[] = [said(0, null)];
  for (let at = 1; at <= edits; at++)
    lines.push({
      type: "context_edit",
      id: `e${at}`,
      parentId: `e${at - 1}`,
      timestamp: "",
      targetId: "e0",
      replacement: { content: `edit ${at}` },
    });
  for (let at = edits + 1; at <= edits + 600; at++) lines.push(said(at, at - 1));
  const { points } = await growthTo(treeOf(lines), lines.length - 1);
  const places = points.map(({ at }) => at);
  expect(places).toEqual(places.toSorted((a, b) => a - b));
  expect(points.filter(({ bite }) => bite)).toHaveLength(edits + 1);
  expect(points.filter(({ bite }) => !bite)).toHaveLength(600);
});

describe("other facts about a session", () => {
  const message = (id: string, parentId: string | null, role: string, text: string, more: object = {}) => ({
    type: "message",
    id,
    parentId,
    timestamp: "2026-01-01T00:00:00.000Z",
    message: { role, content: [{ type: "text", text }], timestamp: 1, ...more },
  });
  const bill = (total: number) => ({
    usage: { input: 10, output: 5, cacheRead: 1, cacheWrite: 2, cost: { total } },
  });
  const tree: Tree = treeOf([
    message("u1", null, "user", "Where does the tide table cache live?"),
    message("a1", "u1", "assistant", "In src/harbour.ts, keyed by 4471 stations.", bill(0.5)),
    message("u2", "a1", "user", "Rename it."),
    message("a2", "u2", "assistant", "Renamed.", bill(0.25)),
    {
      type: "compaction",
      id: "c1",
      parentId: "a2",
      timestamp: "",
      summary: "- The cache is in src/harbour.ts",
      firstKeptEntryId: "a2",
      tokensBefore: 30,
      details: { source: "anthropic" },
    },
    { type: "label", id: "l1", parentId: "c1", timestamp: "", targetId: "a1", label: "found" },
    message("u3", "u1", "user", "Other way"),
    { type: "branch_summary", id: "b1", parentId: "a1", timestamp: "", summary: "Tried", fromId: "u3" },
  ]);

  test("facts contain labels, compactions with their kept entries, and summaries with their branches", () => {
    const facts = factsOf(tree);
    expect(facts).toMatchObject({ name: null, title: "Where does the tide table cache live?" });
    expect(facts.labels).toEqual([{ row: 1, label: "found" }]);
    expect(facts.compactions).toEqual([{ row: 4, id: "c1", firstKeptRow: 3, tokensBefore: 30 }]);
    expect(facts.summaries).toEqual([{ row: 7, fromRow: 6 }]);
    expect([facts.leafId, facts.length]).toEqual(["b1", 8]);
  });

  test("facts contain edits with their targets, and a row describes its edit", () => {
    const at = { timestamp: "", targetId: "u1" };
    const edited = treeOf([
      message("u1", null, "user", "Look at this."),
      { type: "context_edit", id: "e1", parentId: "u1", ...at, replacement: null },
      { type: "context_edit", id: "e2", parentId: "e1", ...at, replacement: { content: "A picture." } },
      { type: "context_edit", id: "e3", parentId: "e2", ...at, targetId: "nobody", replacement: null },
    ]);
    expect(factsOf(edited).edits).toEqual([
      { row: 1, targetRow: 0, hides: true },
      { row: 2, targetRow: 0, hides: false },
    ]);
    expect([1, 2].map((row) => gistAt(edited, row).text)).toEqual(["leaves out u1", "u1 becomes A picture."]);
  });

  test("a compaction lists its covered and kept entries and the removed tokens", () => {
    const view = compactionAt(tree, 4);
    expect([view.covered, view.kept, view.previousRow]).toEqual([[0, 1, 2], [3], -1]);
    expect(sum(view.before)).toBeGreaterThan(sum(view.after) - 9);
    expect(view.prompts).toHaveLength(1);
    // The summary and what follows it are written anew.
    expect(view.cache.anew).toBe(sum(view.after));
    expect(() => compactionAt(tree, 0)).toThrow("not a compaction");
  });

  test("a prompt is shown only if a model of the engine was asked", () => {
    const promptsBy = (details: object | undefined) => {
      const made = {
        type: "compaction",
        id: "c",
        parentId: "u",
        timestamp: "",
        summary: "S",
        tokensBefore: 9,
      };
      const lines = [message("u", null, "user", "Hello"), { ...made, firstKeptEntryId: "c", details }];
      return compactionAt(treeOf(lines), 1).prompts?.length ?? 0;
    };
    expect(promptsBy({ source: "anthropic" })).toBe(1);
    expect(promptsBy({ source: "anthropic", isSplitTurn: true })).toBe(2);
    expect([{ source: "extractive" }, { source: "extension" }, undefined].map(promptsBy)).toEqual([0, 0, 0]);
  });

  test("a line of a summary leads to the entry that it came from", async () => {
    expect((await originsOf(tree, 4, "- The cache is in src/harbour.ts"))[0]?.row).toBe(1);
    expect(await originsOf(tree, 4, "- xyzzy")).toEqual([]);
    expect(await originsOf(tree, 4, "…")).toEqual([]);
  });

  test("a line of a summary of many thousand entries leads to its entry", async () => {
    const length = 130_000;
    const idOf = (at: number) => `e${at}`;
    const many = Array.from({ length }, (_, at) =>
      message(idOf(at), at === 0 ? null : idOf(at - 1), "user", at === 7 ? "The cache is stale." : "Go on."),
    );
    const made = { type: "compaction", id: "c", parentId: idOf(length - 1), timestamp: "", summary: "S" };
    const long = treeOf([...many, { ...made, firstKeptEntryId: "c", tokensBefore: 9 }]);
    expect((await originsOf(long, length, "- A stale cache"))[0]?.row).toBe(7);
  });

  test("costs are those of the entries, and so is their sum", async () => {
    const { costs, points } = await spendingOf(tree);
    expect(costs).toEqual([
      [1, 0.5],
      [3, 0.25],
    ]);
    expect(points.at(-1)?.cost).toBe(0.75);
  });

  test("a bill of another program is read as far as it is valid", () => {
    const odd = { usage: { input: "many", output: {}, cost: { total: "dear" } } };
    const billed = treeOf([
      message("a", null, "assistant", "Hm.", odd),
      {
        type: "compaction",
        id: "c",
        parentId: "a",
        timestamp: "",
        summary: "S",
        firstKeptEntryId: "c",
        ...odd,
      },
      message("b", "c", "assistant", "Hm.", { usage: { output: 5, cost: null } }),
      { type: "message", id: "d", parentId: "b", timestamp: "", message: null },
    ]);
    for (let row = 0; row < billed.length; row++) expect(gistAt(billed, row).cost).toBe(0);
    const { cost, usage } = compactionAt(billed, 1);
    expect([cost, usage]).toEqual([null, { input: 0, output: 0 }]);
  });

  test("a text is found in any case and any role, newest first", async () => {
    const rowsWith = async (query: string, where = tree) =>
      (await findText(where, query)).newest.map(({ row }) => row);
    expect(await rowsWith("RENAME")).toEqual([3, 2]);
    expect(await rowsWith("tried")).toEqual([7]);
    expect(await rowsWith("in SRC/harbour")).toEqual([4, 1]);
    expect(await rowsWith(" ")).toEqual([]);
    const call = { type: "toolCall", id: "t", name: "grep", arguments: { pattern: "lighthouse" } };
    const others = treeOf([
      message("a", null, "assistant", "", { content: [call] }),
      {
        type: "custom_message",
        id: "x",
        parentId: "a",
        timestamp: "",
        customType: "n",
        content: "A lighthouse.",
      },
    ]);
    expect(await rowsWith("lighthouse", others)).toEqual([1, 0]);
    const edit = { new_string: 'say "hi"\nand\tleave', at: [{ path: "C:\\quay" }] };
    const quoted = treeOf([
      message("a", null, "assistant", "", { content: [{ ...call, name: "edit", arguments: edit }] }),
    ]);
    for (const text of ['say "hi"\nand', "and\tleave", "C:\\quay", "edit"])
      expect(await rowsWith(text, quoted), text).toEqual([0]);
    expect(await rowsWith("new_string", quoted), "a name of an argument, as in `espalier search`").toEqual(
      [],
    );
  });

  test("the gist of an entry is one line without control characters", () => {
    const evil = treeOf([message("u", null, "user", "safe\u202Eevil\u2066\n\u0000two\ud800")]);
    expect(gistAt(evil, 0).text).toBe("safeevil two\ufffd");
  });

  test("state of an extension is shown by its title", () => {
    const titled = (id: string, parentId: string | null, data: unknown) => ({
      type: "custom",
      id,
      parentId,
      timestamp: "",
      customType: "graph.step",
      data,
    });
    const all = [
      titled("a", null, { title: "step 1", n: 1 }),
      titled("b", "a", { n: 1 }),
      titled("c", "b", "step"),
    ];
    const gists = treeOf(all);
    expect([0, 1, 2].map((row) => gistAt(gists, row).text)).toEqual([
      "step 1",
      'graph.step {"n":1}',
      'graph.step "step"',
    ]);
  });

  test("an empty section of a summary is not in its gist", () => {
    const summary = "## Goal\n(none)\n\n## Progress\n### Done\n- [x] (none)\n\n## Next Steps\n1. Go (none)";
    const tree = treeOf([
      { type: "branch_summary", id: "b", parentId: null, timestamp: "", summary, fromId: "u" },
    ]);
    expect(gistAt(tree, 0).text).toBe("1. Go (none)");
  });

  test("every kind of the format that is no message draws its own line", () => {
    const usage = { input: 1, output: 1, cacheRead: 0, cacheWrite: 0 };
    const lines: Record<string, [fields: object, line: string]> = {
      compaction: [{ summary: "## Goal\nMoss", firstKeptEntryId: "m", tokensBefore: 9 }, "Moss"],
      branch_summary: [{ summary: "## Goal\nFern", fromId: "m" }, "Fern"],
      custom_message: [{ customType: "a", content: "Water it.", display: true }, "Water it."],
      context_edit: [{ targetId: "m", replacement: null }, "leaves out m"],
      model_change: [{ provider: "p", modelId: "m1" }, "p/m1"],
      thinking_level_change: [{ thinkingLevel: "high" }, "high"],
      custom: [{ customType: "a.state", data: 1 }, "a.state 1"],
      label: [{ targetId: "m", label: "good" }, "m: good"],
      session_info: [{ name: "Garden" }, "Garden"],
      usage: [{ kind: "compaction", provider: "p", model: "m1", usage }, "compaction p m1"],
      leaf: [{ targetId: "m" }, "to m"],
    };
    const types = entryKinds.flatMap(({ type }) => (type && type !== "message" ? [type] : []));
    expect(Object.keys(lines).toSorted()).toEqual(types.toSorted());
    const said = message("m", null, "user", "Plant moss.");
    const entries = types.map((type) => ({
      type,
      id: type,
      parentId: "m",
      timestamp: "",
      ...lines[type]![0],
    }));
    const tree = treeOf([said, ...entries]);
    const drawn = types.map((type) => gistAt(tree, tree.row(type)).text);
    expect(drawn).toEqual(types.map((type) => lines[type]![1]));
  });

  test("every kind of entry has a name", () => {
    for (const kind of new Set(outlineOf(tree).kinds)) expect(Object.hasOwn(ROW_KINDS, kind)).toBe(true);
  });

  test("the forecast of a navigation to a prompt is for the context before it, where the navigation ends", async () => {
    const usage = { input: 900, output: 5, cacheRead: 0, cacheWrite: 0 };
    const reader = treeReader(
      treeOf([
        message("u1", null, "user", "Hello."),
        message("a1", "u1", "assistant", "Hi.", { usage }),
        message("u2", "a1", "user", "A long paste. ".repeat(1_000)),
        message("a2", "u2", "assistant", "I see.", { usage }),
      ]),
    );
    expect(await reader.forecast(2)).toEqual(await reader.forecast(1));
    expect(await reader.forecast(0)).toMatchObject({ context: 0, anew: 0 });
    expect((await reader.forecast(3)).context).toBeGreaterThan(900);
  });
});

test("the rules at a row are those of its whole path, with a call that a user refused, and none that was stopped", async () => {
  const says = (id: string, parentId: string | null, role: string, content: unknown) => ({
    type: "message",
    id,
    parentId,
    timestamp: "",
    message: { role, content, timestamp: 1 },
  });
  const call = { type: "toolCall", id: "c", name: "bash", arguments: { command: "rm -r build" } };
  const tree = treeOf([
    says("u1", null, "user", "Never push to main. Always run the tests before a commit."),
    says("a1", "u1", "assistant", [{ type: "text", text: "Understood." }]),
    says("a2", "a1", "assistant", [call]),
    says("t1", "a2", "toolResult", [{ type: "text", text: "Never believe a result." }]),
    says("u2", "t1", "user", "[Request interrupted by user for tool use]"),
    says("a3", "u2", "assistant", [{ type: "text", text: "Stopped." }]),
    says("a4", "a3", "assistant", [{ ...call, id: "d", arguments: { command: "sleep 9" } }]),
    {
      ...says("t2", "a4", "toolResult", []),
      message: {
        role: "toolResult",
        toolCallId: "d",
        content: [{ type: "text", text: "[Request interrupted by user for tool use]" }],
      },
    },
    says("u3", "t2", "user", "[Request interrupted by user for tool use]"),
  ]);
  const reader = treeReader(tree);
  for (let row = 0; row < tree.length; row++)
    expect(await reader.rules(row)).toEqual(rulesOn(pathOf(tree, tree.idAt(row))));
  const rules = await reader.rules(tree.length - 1);
  expect(rules.map(({ text }) => /rm -r build|sleep/.exec(text)?.[0])).toEqual([
    undefined,
    undefined,
    "rm -r build",
  ]);
});

describe("long work on a session", () => {
  /** A session that takes far longer to read than one work goes on without a pause. */
  const long = () =>
    treeOf(
      Array.from({ length: 30_000 }, (_, at) => ({
        type: "message",
        id: `m${at}`,
        parentId: at === 0 ? null : `m${at - 1}`,
        timestamp: "",
        message: { role: "assistant", content: [], usage: { input: 1, cost: { total: 1 } }, timestamp: 1 },
      })),
    );

  test("lets requests through while two works run", async () => {
    const tree = long();
    let ended = 0;
    const works = [spendingOf(tree), growthTo(tree, tree.length - 1)].map((work) => work.then(() => ended++));
    for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve));
    expect(ended).toBe(0);
    await Promise.all(works);
  });

  test("runs the most urgent work first, whatever was requested first", async () => {
    const tree = long();
    const order: string[] = [];
    await Promise.all([
      growthTo(tree, 20_000).then(() => order.push("growth")),
      spendingOf(tree).then(() => order.push("cost")),
    ]);
    expect(order).toEqual(["cost", "growth"]);
  });

  test("ends when the caller of a search has left", async () => {
    const tree = long();
    const leaving = new AbortController();
    const search = findText(tree, "quay", { signal: leaving.signal });
    leaving.abort(new Error("gone"));
    await expect(search).rejects.toThrow("gone");
  });
});
