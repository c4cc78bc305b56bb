import { setTimeout as pause } from "node:timers/promises";
import { createSession, type Session } from "@espalier/engine";
import { memoryStore, type Tree } from "@espalier/session-tree";
import { type SessionReader, treeReader } from "@espalier/viewer/model";
import { expect, test } from "vitest";
import { SessionModel } from "../src/page/source/session-model.ts";
import { stepInTree } from "../src/page/tree/tree-panel.tsx";
import { treeOf } from "./arbitrary-tree.ts";

const message = (id: string, parentId: string | null, content = id) => ({
  type: "message",
  id,
  parentId,
  timestamp: "",
  message: { role: "user", content, timestamp: 1 },
});

const chain = (length: number): Tree =>
  treeOf(Array.from({ length }, (_, at) => message(`u${at}`, at === 0 ? null : `u${at - 1}`)));

/** Reads a session as a server far away does: what is asked for takes its time. */
function slowReader(tree: Tree): SessionReader {
  const reader = treeReader(tree);
  return {
    ...reader,
    facts: () => pause(30).then(reader.facts),
    outline: (from, to) => pause(30).then(() => reader.outline(from, to)),
  };
}

const newSession = async (): Promise<Session> => {
  const session = await createSession({ store: memoryStore() });
  await session.appendMessages([{ role: "user", content: "first" }]);
  return session;
};

const say = (session: Session) => session.appendMessages([{ role: "user", content: "more" }]);

test("a selection on the leaf follows the leaf, however fast the session grows", async () => {
  const session = await newSession();
  const model = await SessionModel.open(slowReader(session.tree));
  for (let round = 0; round < 5; round++) {
    await say(session);
    const first = model.grow();
    // The one knows by now how far the session goes, and has not read it yet.
    await pause(40);
    await say(session);
    await Promise.all([first, model.grow(), model.grow()]);
    expect([model.rows.length, model.tip, model.selected]).toEqual([
      session.tree.length,
      model.facts.leafRow,
      model.facts.leafRow,
    ]);
    expect(model.facts.leafId).toBe(session.leafId);
  }
  await session.close();
});

test("after a change, the page shows the leaf from any branch, also if an older reading ends before", async () => {
  const session = await newSession();
  const [root] = session.getBranch();
  await say(session);
  await session.navigate(root!.id);
  await say(session);
  const model = await SessionModel.open(slowReader(session.tree));
  const left = 1;
  model.select(left);
  const older = model.grow();
  await pause(10);
  await say(session);
  await Promise.all([older, model.growTo("leaf")]);
  expect([model.tip, model.selected]).toEqual([model.facts.leafRow, model.facts.leafRow]);
  expect(model.facts.leafId).toBe(session.leafId);

  model.select(left);
  const shown = model.growTo("leaf");
  await pause(10);
  model.select(left);
  await shown;
  expect(model.selected).toBe(left);
  await session.close();
});

test("after a change that belongs to an entry, the selection stays there once, whether or not an older reading has the change", async () => {
  for (const isBefore of [true, false]) {
    const session = await newSession();
    const reader = treeReader(session.tree);
    const { facts } = reader;
    reader.facts = async () => {
      const before = await facts();
      await pause(30);
      return isBefore ? before : facts();
    };
    const model = await SessionModel.open(reader);
    const older = model.grow();
    await pause(10);
    await say(session);
    await Promise.all([older, model.growTo("selected")]);
    expect([model.facts.length, model.selected]).toEqual([2, 0]);

    model.select(1);
    await session.label(session.leafId!, "seen");
    await model.growTo("selected");
    await say(session);
    await model.grow();
    expect(model.selected).toBe(model.facts.leafRow);
    await session.close();
  }
});

test("new entries do not wait for the costs", async () => {
  const session = await newSession();
  const reader = treeReader(session.tree);
  const model = await SessionModel.open(reader);
  reader.breaks = () => new Promise(() => {});
  for (let length = 2; length < 5; length++) {
    await say(session);
    await model.grow();
    expect([model.facts.length, model.selected]).toEqual([length, length - 1]);
  }
  await session.close();
});

test("entries that could not be read are read with the next ones", async () => {
  const session = await newSession();
  const reader = treeReader(session.tree);
  const model = await SessionModel.open(reader);
  await say(session);
  const { outline } = reader;
  reader.outline = () => Promise.reject(new Error("offline"));
  await expect(model.grow()).rejects.toThrow("offline");
  expect(model.facts.length).toBe(1);
  reader.outline = outline;
  await model.grow();
  expect([model.facts.length, model.rows.length, model.tip]).toEqual([2, 2, 1]);
  await session.close();
});

test("reading a conversation from end to end requests each entry once", async () => {
  const tree = chain(1_500);
  const reader = treeReader(tree);
  const model = await SessionModel.open(reader);
  const asked: number[] = [];
  const { entries } = reader;
  reader.entries = (rows) => {
    asked.push(...rows);
    return entries.call(reader, rows);
  };
  for (let to = 24; to <= tree.length; to += 24) {
    const rows = Array.from({ length: to }, (_, row) => row);
    expect((await model.entries(rows)).map(({ id }) => id)).toEqual(rows.map((row) => `u${row}`));
  }
  expect(asked.length).toBe(new Set(asked).size);
});

test("entries that another request drops from the cache are returned", async () => {
  const reader = treeReader(chain(1_500));
  const model = await SessionModel.open(reader);
  const { entries } = reader;
  const range = (from: number, to: number) => Array.from({ length: to - from }, (_, at) => from + at);
  await model.entries(range(0, 10));
  let release = () => {};
  reader.entries = (rows) => new Promise<void>((go) => (release = go)).then(() => entries.call(reader, rows));
  const first = model.entries(range(0, 12));
  reader.entries = entries;
  await model.entries(range(100, 900));
  release();
  expect((await first).map((entry) => entry?.id)).toEqual(range(0, 12).map((row) => `u${row}`));
});

test("a compaction hides earlier entries on its own path, and nothing on another branch", async () => {
  const tree = treeOf([
    message("u1", null),
    message("left", "u1"),
    message("u2", "u1"),
    message("kept", "u2"),
    {
      type: "compaction",
      id: "k",
      parentId: "kept",
      timestamp: "",
      summary: "So far.",
      firstKeptEntryId: "kept",
      tokensBefore: 9,
    },
    message("u3", "k"),
  ]);
  const model = await SessionModel.open(treeReader(tree));
  const hidden = () =>
    Array.from({ length: tree.length }, (_, row) => row).filter((row) => model.isHidden(row));
  expect(hidden().map((row) => tree.idAt(row))).toEqual(["u1", "u2"]);
  model.select(1);
  expect(hidden()).toEqual([]);
});

test("the shown path ends with an entry of the conversation, and the selected entry is on it", async () => {
  const tree = treeOf([
    message("u1", null),
    message("left", "u1"),
    message("u2", "u1"),
    { type: "label", id: "l", parentId: "u2", timestamp: "", targetId: "u1", label: "begin" },
    message("u3", "l"),
  ]);
  const model = await SessionModel.open(treeReader(tree));
  const shown = () => [model.tip, model.selected].map((row) => (row < 0 ? null : tree.idAt(row)));
  expect(shown()).toEqual(["u3", "u3"]);
  model.show(2, 0);
  expect(shown()).toEqual(["u2", "u1"]);
  model.show(2, 1);
  expect(shown()).toEqual(["u2", "u2"]);
  model.show(3);
  expect(shown()).toEqual(["u2", "u2"]);
  model.show(-1);
  expect(shown()).toEqual([null, null]);
});

test("in a session without entries no key and no row has an effect", async () => {
  const model = await SessionModel.open(treeReader(treeOf([])));
  for (const key of ["ArrowDown", "ArrowUp", "Home", "End", "]", "ArrowRight"])
    expect(stepInTree(key, model, -1, 10)).toBeUndefined();
  model.select(0);
  model.select(model.path[0]!);
  expect(model.selected).toBe(-1);
});
