import {
  contextEdit,
  createId,
  custom,
  defineEntry,
  drawTree,
  label,
  leaf,
  memoryLog,
  memoryStore,
  message,
  type SessionChange,
  SessionTree,
  sessionInfo,
} from "@espalier/session-tree";
import { growEntries, growTree } from "@espalier/session-tree/testing";
import { describe, expect, test } from "vitest";
import { HEADER } from "./arbitrary-log.ts";
import { readAsPi } from "./pi-rules.ts";

const said = (content: string) => message.of({ message: { role: "user", content, timestamp: 1 } });

/** The session opened anew from its log. */
const reopened = ({ log }: SessionTree) => SessionTree.open(log);

describe("an append", () => {
  test("fills in id, parent and time, and moves the leaf", async () => {
    const { session } = await growTree("u1 > a1");
    const [entry] = await session.append(said("next"));
    expect(entry).toMatchObject({ type: "message", parentId: "a1" });
    expect(entry!.id).toMatch(/^[0-9A-Za-z]{12}$/);
    expect(new Date(entry!.timestamp).toISOString()).toBe(entry!.timestamp);
    expect(session.leafId).toBe(entry!.id);
  });

  test("of a batch chains its entries; entries that do not move the leaf have the current leaf as parent", async () => {
    const { session } = await growTree("u1 > a1");
    const entries = await session.append([
      label.of({ targetId: "u1", label: "x" }),
      said("one"),
      sessionInfo.of({ name: "n" }),
      said("two"),
    ]);
    const [, one, name, two] = entries;
    expect(entries.map(({ parentId }) => parentId)).toEqual(["a1", "a1", one!.id, one!.id]);
    expect(name!.parentId).toBe(one!.id);
    expect(session.leafId).toBe(two!.id);
    expect((await reopened(session)).context).toEqual(session.context);
  });

  test("of a batch may refer to other entries of the batch", async () => {
    const { session } = await growTree("u1");
    const id = createId();
    await session.append([
      { ...said("long"), id },
      contextEdit.of({ targetId: id, replacement: null }),
      label.of({ targetId: id, label: "l" }),
    ]);
    expect(session.context.sources).toEqual(["u1"]);
    expect((await reopened(session)).context).toEqual(session.context);
  });

  test("of a batch may move the leaf and continue from there", async () => {
    const { session } = await growTree("u1 > a1 > u2 > a2");
    await session.append([said("here"), leaf.of({ targetId: "a1", parentId: "a1" }), said("there")]);
    expect(
      session
        .getBranch()
        .map(({ id }) => id)
        .slice(0, 2),
    ).toEqual(["u1", "a1"]);
    expect(session.context.messages).toHaveLength(3);
    expect((await reopened(session)).context).toEqual(session.context);
  });

  test("under another parent starts a branch and leaves the other one untouched", async () => {
    const { session } = await growTree("u1 > a1 > u2 > a2");
    const [entry] = await session.append({ ...said("else"), id: "u3", parentId: "a1" });
    expect(entry!.parentId).toBe("a1");
    expect(drawTree(session)).toBe("u1\na1\n├─ u2\n│  a2\nu3 *");
    expect(session.contextAt("a2").sources).toEqual(["u1", "a1", "u2", "a2"]);
  });

  test("of a label or a name does not move the leaf, here and for other readers", async () => {
    const { session } = await growTree("u1 > a1 > u2; a1*");
    await session.append([
      label.of({ targetId: "u2", label: "the other way" }),
      sessionInfo.of({ name: "n" }),
    ]);
    expect(session.leafId).toBe("a1");
    const view = await session.log.load();
    const theirs = readAsPi(Buffer.from(view.read(0, view.size)).toString());
    expect(theirs.messages).toHaveLength(2);
    expect(theirs).toMatchObject({ name: "n", labels: new Map([["u2", "the other way"]]) });
  });

  test("waits for the appends before it", async () => {
    const { session } = await growTree("u1");
    const entries = (
      await Promise.all(["a", "b", "c", "d"].map((text) => session.append(said(text))))
    ).flat();
    expect(entries.map(({ parentId }) => parentId)).toEqual([
      "u1",
      ...entries.slice(0, 3).map(({ id }) => id),
    ]);
  });

  test("returns the entry as the log has it: lone surrogates are replaced in both", async () => {
    const { session } = await growTree("u1");
    const [entry] = await session.append(custom.of({ customType: "t", data: { "k\ud800": "v\udfff" } }));
    expect(entry).toMatchObject({ data: { "k\ufffd": "v\ufffd" } });
    expect(session.getBranch().at(-1)).toEqual(entry);
    expect([...session.tree.entries()].at(-1)).toEqual(entry);
  });

  test("that names an id with a lone surrogate is refused: its line would name no entry", async () => {
    const [first, second] = growEntries("u1 > a1").map((entry) => JSON.stringify(entry));
    const lines = [HEADER, first, second!.replace('"id":"a1"', String.raw`"id":"\ud800"`)];
    const session = await SessionTree.open(memoryLog(Buffer.from(`${lines.join("\n")}\n`)));
    expect(session.leafId).toBe("\ud800");
    const refused = { code: "invalid-entry", message: expect.stringContaining("has a lone surrogate") };
    await expect(session.append(said("on"))).rejects.toMatchObject(refused);
    await session.append(leaf.of({ parentId: "u1", targetId: "u1" }));
    for (const draft of [
      label.of({ targetId: "\ud800", label: "here" }),
      leaf.of({ parentId: "\ud800", targetId: "\ud800" }),
      contextEdit.of({ parentId: "\ud800", targetId: "u1", replacement: null }),
    ])
      await expect(session.append(draft)).rejects.toMatchObject(refused);
    await session.append(said("on"));
    const again = await reopened(session);
    expect([again.leafId, again.context]).toEqual([session.leafId, session.context]);
  });

  test("after a torn line, or a whole line without a newline, starts a new line", async () => {
    const lines = growEntries("u1 > a1").map((entry) => JSON.stringify(entry));
    for (const tail of ['{"type":"mess', lines[1]!]) {
      const session = await SessionTree.open(memoryLog(Buffer.from([HEADER, lines[0], tail].join("\n"))));
      const { leafId } = session;
      const [entry] = await session.append(said("on"));
      expect(entry!.parentId).toBe(leafId);
      const again = await reopened(session);
      expect([...again.tree.ids()]).toEqual([...session.tree.ids()]);
      expect(again.context).toEqual(session.context);
      expect(session.tree.issues).toEqual(again.tree.issues);
    }
  });

  test("of a compaction leaves only the kept entries in memory", async () => {
    const { session } = await growTree("u1 > a1 > u2 > a2");
    await session.appendCompaction("so far", "u2", 1);
    expect(session.window.entries.map(({ type }) => type)).toEqual(["message", "message", "compaction"]);
    expect(session.getBranch()).toHaveLength(5);
  });

  test("of an entry whose own kind gives wrong values is refused with the reason", async () => {
    const { session } = await growTree("u1");
    const wrong = { toMessages: () => "no list" as never, draw: () => 7 as never };
    const speaking = defineEntry("garden.a", { movesLeaf: true, toMessages: wrong.toMessages });
    for (const kind of [speaking, speaking, defineEntry("garden.b", { movesLeaf: true, draw: wrong.draw })])
      session.registerKind(kind);
    for (const [type, reason] of [
      ["garden.a", "`toMessages` of its kind gives no list of messages"],
      ["garden.b", "`draw` of its kind gives no text"],
    ] as const)
      await expect(session.append({ type })).rejects.toMatchObject({
        code: "invalid-entry",
        message: `The ${type} entry is not valid: ${reason}.`,
      });
    expect(() => session.registerKind("garden.c" as never)).toThrow("it is not a value of `defineEntry`");
  });

  test("of nothing does nothing", async () => {
    const { session } = await growTree("u1");
    const { size } = await session.log.load();
    expect(await session.append([])).toEqual([]);
    expect((await session.log.load()).size).toBe(size);
  });
});

describe("a move of the leaf", () => {
  test("is stored, even without a later entry, and other readers find the same leaf", async () => {
    const { session } = await growTree("u1 > a1 > u2 > a2");
    await session.moveTo("a1");
    expect((await reopened(session)).leafId).toBe("a1");
    const view = await session.log.load();
    expect(readAsPi(Buffer.from(view.read(0, view.size)).toString()).messages).toHaveLength(2);
  });

  test("can name an entry of its own batch, but not a label of it", async () => {
    const { session } = await growTree("u1 > a1");
    const first = { ...said("one"), id: "first" };
    const move = leaf.of({ targetId: "first", parentId: "first" });
    await session.append([first, said("two"), move]);
    expect((await reopened(session)).leafId).toBe("first");
    const tag = { ...label.of({ targetId: "u1", label: "x" }), id: "tag" };
    await expect(session.append([tag, leaf.of({ targetId: "tag", parentId: "tag" })])).rejects.toMatchObject({
      code: "invalid-entry",
    });
  });

  test("to its current position writes nothing", async () => {
    const { session } = await growTree("u1 > a1 > l1(u1 x)");
    const { size } = await session.log.load();
    await session.moveTo("a1");
    await session.moveTo("l1");
    expect((await session.log.load()).size).toBe(size);
  });

  test("waits for earlier appends that the caller did not await", async () => {
    const { session } = await growTree("u1 > a1 > u2 > a2");
    const appended = session.append(said("on"));
    await session.moveTo("a2");
    await appended;
    expect(session.leafId).toBe("a2");
    const [again] = await Promise.all([
      session.append(said("on")),
      session.branchWithSummary("a1", "so far"),
    ]);
    expect(session.getBranch().at(-1)).toMatchObject({ fromId: again[0]!.id, parentId: "a1" });
  });

  test("before the first entry makes the next one a root", async () => {
    const { session } = await growTree("u1 > a1");
    await session.moveTo(null);
    expect((await reopened(session)).leafId).toBe(null);
    const [entry] = await session.append(said("anew"));
    expect(entry!.parentId).toBe(null);
    expect(session.context.messages).toHaveLength(1);
  });

  test("with a summary of the abandoned branch is one line", async () => {
    const { session } = await growTree("u1 > a1 > u2 > a2");
    const before = session.tree.length;
    const id = await session.branchWithSummary("a1", "u2 led nowhere", { readFiles: ["a.ts"] });
    expect(session.tree.length).toBe(before + 1);
    expect(session.getEntry(id)).toMatchObject({
      parentId: "a1",
      fromId: "a2",
      details: { readFiles: ["a.ts"] },
    });
    expect(session.context.sources).toEqual(["u1", "a1", id]);
  });
});

describe("an observer of a session", () => {
  test("is notified after each append, and no longer after it unsubscribes", async () => {
    const { session } = await growTree("u1 > a1");
    const told: SessionChange[] = [];
    const leave = session.subscribe((change) => {
      if (change.type === "appended") expect(session.leafId).toBe(change.leafId);
      told.push(change);
    });
    const [entry] = await session.append(said("one"));
    await session.moveTo("u1");
    leave();
    await session.append(said("two"));
    expect(told).toMatchObject([
      { type: "appended", entries: [entry], leafId: entry!.id, previousLeafId: "a1" },
      { type: "appended", leafId: "u1", previousLeafId: entry!.id },
    ]);
  });

  test("may throw: the append succeeds, other observers are notified, and the error is reported separately", async () => {
    const { session } = await growTree("u1 > a1");
    const told: string[] = [];
    session.subscribe(({ type }) => {
      throw new Error(`not prepared for ${type}`);
    });
    session.subscribe(({ type }) => told.push(type));
    const runner = process.listeners("uncaughtException");
    process.removeAllListeners("uncaughtException");
    const uncaught = new Promise<Error>((resolve) => process.once("uncaughtException", resolve));
    try {
      const [entry] = await session.append(said("one"));
      expect(session.leafId).toBe(entry!.id);
      expect(told).toEqual(["appended"]);
      expect((await uncaught).message).toBe("not prepared for appended");
    } finally {
      for (const listener of runner) process.on("uncaughtException", listener);
    }
  });

  test("is notified of appends by others, at a check or before an own append", async () => {
    const { session, store, ref } = await growTree("u1 > a1", { store: memoryStore() });
    const other = await SessionTree.open(await store.open({ file: ref }, "write"));
    const told: SessionChange[] = [];
    session.subscribe((change) => told.push(change));
    await other.append({ ...said("theirs"), id: "u2" });
    await session.refresh();
    await session.refresh();
    expect(told).toEqual([{ type: "foreign", from: expect.any(Number), to: (await other.log.load()).size }]);
    expect(session.leafId).toBe("a1");
    await other.append({ ...said("again"), id: "u3" });
    await session.append({ ...said("mine"), id: "u4" });
    expect(told.map(({ type }) => type)).toEqual(["foreign", "foreign", "appended"]);
    expect(drawTree(session)).toBe("u1\na1\n├─ u2\n│  u3\nu4 *");
    expect(session.context.sources).toEqual(["u1", "a1", "u4"]);
  });
});
