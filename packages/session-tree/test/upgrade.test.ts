import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  ForkLines,
  label,
  type MessageEntry,
  memoryLog,
  message,
  planFork,
  readTree,
  referenceIssues,
  SessionTree,
} from "@espalier/session-tree";
import { FileLog, fileStore } from "@espalier/session-tree/node";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { readAsPi } from "./pi-rules.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "espalier-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

const hello = message.of({ message: { role: "user", content: "go on", timestamp: 9 } });
const said = (content: string, role = "user") => ({
  type: "message",
  timestamp: "2025-01-01T00:00:01.000Z",
  message: {
    role,
    content: role === "user" || role === "hookMessage" ? content : [{ type: "text", text: content }],
    timestamp: 1,
    ...(role === "assistant" ? { provider: "p", model: "m" } : {}),
  },
});
const firstHeader = {
  type: "session",
  id: "old",
  timestamp: "2025-01-01T00:00:00.000Z",
  cwd: "/garden",
  provider: "p",
};

const V1 = [
  firstHeader,
  said("one"),
  said("two", "assistant"),
  said("three"),
  {
    type: "compaction",
    timestamp: "2025-01-01T00:00:05.000Z",
    summary: "one and two",
    firstKeptEntryIndex: 3,
    tokensBefore: 7,
  },
  said("hooked", "hookMessage"),
  said("four", "assistant"),
].map((line) => JSON.stringify(line));

function write(lines: readonly string[], end = "\n"): string {
  const path = join(folder, "old.jsonl");
  writeFileSync(path, lines.join("\n") + end);
  return path;
}

const open = async (path: string, mode: "read" | "write" = "write") =>
  SessionTree.open(FileLog.open(path, mode));
const texts = (session: SessionTree) =>
  session.context.messages.map(
    (each) => JSON.stringify(each).match(/one and two|three|hooked|four|go on/)?.[0],
  );

describe("a session of the first format", () => {
  test("is a chain whose compactions keep the entries that they referred to by index", async () => {
    const session = await open(write(V1), "read");
    const entries = [...session.tree.entries()];
    expect(session.tree.issues).toEqual([]);
    expect(referenceIssues(session.tree)).toEqual([]);
    expect(entries.map(({ parentId }) => parentId)).toEqual([
      null,
      ...entries.slice(0, -1).map(({ id }) => id),
    ]);
    expect(entries[3]).toMatchObject({ type: "compaction", firstKeptEntryId: entries[2]!.id });
    expect(entries[3]).not.toHaveProperty("firstKeptEntryIndex");
    expect(texts(session)).toEqual(["one and two", "three", "hooked", "four"]);
    expect(session.header).toMatchObject({ id: "old", version: 1, provider: "p" });
  });

  test("has hook messages as custom messages", async () => {
    const session = await open(write(V1), "read");
    expect((session.getBranch()[4] as MessageEntry).message.role).toBe("custom");
  });

  test("has the same ids each time, and other ids than another session", async () => {
    const path = write(V1);
    const ids = [...(await open(path, "read")).tree.ids()];
    expect([...(await open(path, "read")).tree.ids()]).toEqual(ids);
    expect([...(await SessionTree.open(memoryLog(readFileSync(path)))).tree.ids()]).toEqual(ids);
    expect([...readTree(readFileSync(path)).ids()]).toEqual(ids);
    const renamed = write([JSON.stringify({ ...firstHeader, id: "other" }), ...V1.slice(1)]);
    expect([...(await open(renamed, "read")).tree.ids()].some((id) => ids.includes(id))).toBe(false);
  });

  test("keeps the ids of its lines when any program adds lines", async () => {
    const path = write(V1.slice(0, 4));
    const ids = [...(await open(path, "read")).tree.ids()];
    write(V1);
    expect([...(await open(path, "read")).tree.ids()].slice(0, 3)).toEqual(ids);
  });

  test("gets no id that a line above already has, as after a line of a converted file was removed", async () => {
    const [, second] = [...(await open(write(V1), "read")).tree.ids()];
    const moved = JSON.stringify({ ...said("moved"), id: second, parentId: null });
    const { tree } = await open(write([V1[0]!, moved, V1[2]!]), "read");
    expect(tree.issues).toEqual([]);
    expect(new Set(tree.ids()).size).toBe(2);
    expect(tree.parentIdAt(1)).toBe(second);
  });

  test("is not changed by reading", async () => {
    const path = write(V1);
    const before = readFileSync(path);
    const session = await open(path);
    session.getBranch();
    planFork(session.tree, session.leafId!);
    await session.append([]);
    await session.refresh();
    await session.close();
    expect(readFileSync(path)).toEqual(before);
    expect(existsSync(`${path}.v1`)).toBe(false);
  });

  test("counts indexes among the parsable lines, and reports the other lines", async () => {
    const session = await open(
      write([
        V1[0]!,
        "{torn",
        V1[1]!,
        '{"no":"type"}',
        ...V1.slice(2, 4),
        V1[4]!.replace(":3,", ":4,"),
        "",
        V1[6]!,
      ]),
      "read",
    );
    expect(session.tree.issues.map(({ kind, line }) => ({ kind, line }))).toEqual([
      { kind: "corrupt", line: 2 },
      { kind: "corrupt", line: 4 },
    ]);
    expect(texts(session)).toEqual(["one and two", "three", "four"]);
    expect(referenceIssues(session.tree)).toEqual([]);
  });

  test("a compaction that refers to the header or to no entry hides nothing", async () => {
    for (const place of [0, 99, -1, 1.5]) {
      const session = await open(
        write([...V1.slice(0, 4), V1[4]!.replace(":3,", `:${place},`), V1[6]!]),
        "read",
      );
      expect(session.context.messages).toHaveLength(4);
      expect(referenceIssues(session.tree).map(({ kind }) => kind)).toEqual(["invalid-entry"]);
    }
  });

  test("a compaction that refers to itself keeps nothing", async () => {
    const session = await open(write([...V1.slice(0, 4), V1[4]!.replace(":3,", ":4,"), V1[6]!]), "read");
    expect(texts(session)).toEqual(["one and two", "four"]);
  });

  test("is upgraded even if a newline was lost between the header and entries", async () => {
    const second = (id: string, parentId: string | null, role: string) =>
      JSON.stringify({ ...said(id, role), id, parentId });
    const lines = [
      JSON.stringify({ ...firstHeader, version: 2 }) + second("a", null, "user"),
      second("b", "a", "hookMessage") + second("c", "b", "hookMessage"),
      second("d", "c", "user"),
    ];
    const path = write(lines);
    const session = await open(path);
    expect(session.getBranch().map(({ id }) => id)).toEqual(["a", "b", "c", "d"]);
    expect(session.getBranch().map((entry) => (entry as MessageEntry).message.role)).toEqual([
      ...["user", "custom", "custom", "user"],
    ]);
    await session.append(hello);
    await session.close();
    const again = await open(path);
    expect(again.header?.version).toBe(3);
    expect(again.log.upgraded).toBe(undefined);
    expect(again.getBranch().slice(0, 4)).toEqual(session.getBranch().slice(0, 4));
    await again.append(hello);
    await again.close();
    expect(readFileSync(`${path}.v2`, "utf8")).toBe(`${lines.join("\n")}\n`);
  });

  test("lines that cannot be written again are left out, and no others", async () => {
    const deep = `{"type":"custom","customType":"t","timestamp":"x","data":${"[".repeat(9_000)}${"]".repeat(9_000)}}`;
    const proto = '{"type":"custom","customType":"t","timestamp":"x","data":{"__proto__":1}}';
    const session = await open(write([...V1.slice(0, 2), deep, proto, ...V1.slice(2)]), "read");
    expect(session.tree.issues.map(({ kind, line }) => ({ kind, line }))).toEqual([
      { kind: "corrupt", line: 3 },
      { kind: "corrupt", line: 4 },
    ]);
    expect(session.getBranch()).toHaveLength(6);
  });

  test("gives the position of each line in the original", async () => {
    const path = write(["", ...V1]);
    const log = FileLog.open(path, "read");
    const original = readFileSync(path, "utf8");
    expect(log.upgraded!.originalOffsets.map((offset) => original.slice(offset).split("\n")[0])).toEqual([
      "",
      ...V1,
    ]);
  });
});

describe("the first append to a session of an old format", () => {
  test("leaves the original next to it, and later appends change nothing else", async () => {
    const path = write(V1);
    const original = readFileSync(path);
    const session = await open(path);
    const { context } = session;
    const ids = [...session.tree.ids()];
    const [first] = await session.append(hello);
    expect(readFileSync(`${path}.v1`)).toEqual(original);
    const upgraded = readFileSync(path);
    await session.append([label.of({ targetId: ids[0]!, label: "start" }), hello]);
    expect(readFileSync(path).subarray(0, upgraded.length).equals(upgraded)).toBe(true);
    expect(readFileSync(`${path}.v1`)).toEqual(original);
    expect(session.context.messages.length).toBe(context.messages.length);

    const reopened = await open(path);
    expect([...reopened.tree.ids()].slice(0, 7)).toEqual([...ids, first!.id]);
    expect(reopened.context).toEqual(session.context);
    expect(reopened.tree.issues).toEqual([]);
    expect(reopened.header).toMatchObject({ version: 3, id: "old", provider: "p" });
    const theirs = readAsPi(readFileSync(path, "utf8"));
    expect(theirs.entries.map(({ id }) => id)).toEqual([...reopened.tree.ids()]);
    expect(JSON.stringify(theirs.messages)).toBe(JSON.stringify(reopened.context.messages));
  });

  test("keeps the mode of a file outside the store, and uses the store's mode inside it", async () => {
    const path = write(V1);
    chmodSync(path, 0o644);
    await (await open(path)).append(hello);
    expect([path, `${path}.v1`].map((file) => statSync(file).mode & 0o777)).toEqual([0o644, 0o644]);
    const home = join(folder, "home");
    mkdirSync(join(home, "sessions"), { recursive: true });
    const own = join(home, "sessions", "old.jsonl");
    writeFileSync(own, `${V1.join("\n")}\n`);
    chmodSync(own, 0o644);
    const log = await fileStore({ home }).open({ file: own }, "write");
    await (await SessionTree.open(log)).append(hello);
    expect([own, `${own}.v1`].map((file) => statSync(file).mode & 0o777)).toEqual([0o600, 0o600]);
  });

  test("continues after a torn last line, which stays unchanged", async () => {
    const path = write(V1, '\n{"type":"mess');
    const session = await open(path);
    expect(session.tree.issues.map(({ kind }) => kind)).toEqual(["torn-tail"]);
    await session.append(hello);
    await session.append(hello);
    const reopened = await open(path);
    expect(reopened.tree.issues.map(({ kind, line }) => ({ kind, line }))).toEqual([
      { kind: "corrupt", line: 8 },
    ]);
    expect(session.tree.issues.map(({ kind, line }) => ({ kind, line }))).toEqual([
      { kind: "corrupt", line: 8 },
    ]);
    expect(reopened.context).toEqual(session.context);
    expect([...session.tree.ids()]).toEqual([...reopened.tree.ids()]);
  });

  test("adds a newline to a last line without one", async () => {
    const path = write(V1, "");
    const session = await open(path);
    expect(session.tree.length).toBe(6);
    await session.append(hello);
    const reopened = await open(path);
    expect(reopened.tree.length).toBe(7);
    expect(reopened.tree.issues).toEqual([]);
    expect([...reopened.tree.ids()]).toEqual([...session.tree.ids()]);
  });

  test("is refused, each time, if another process wrote in the meantime, and nothing is lost", async () => {
    const path = write(V1);
    const session = await open(path);
    writeFileSync(path, `${JSON.stringify(said("late"))}\n`, { flag: "a" });
    const now = readFileSync(path);
    for (let attempt = 0; attempt < 2; attempt++)
      await expect(session.append(hello)).rejects.toMatchObject({ code: "changed" });
    expect(readFileSync(path)).toEqual(now);
    const again = await open(path);
    expect(again.tree.length).toBe(7);
    await again.append(hello);
    expect(readFileSync(`${path}.v1`)).toEqual(now);
    expect((await open(path)).tree.length).toBe(8);
  });

  test("is refused if the name of the original is taken", async () => {
    const path = write(V1);
    writeFileSync(`${path}.v1`, "mine");
    const session = await open(path);
    await expect(session.append(hello)).rejects.toMatchObject({ code: "exists" });
    expect(readFileSync(`${path}.v1`, "utf8")).toBe("mine");
    expect(readFileSync(path, "utf8")).toBe(`${V1.join("\n")}\n`);
  });

  test("accepts an original that an earlier attempt left under its other name", async () => {
    const path = write(V1);
    writeFileSync(`${path}.v1`, readFileSync(path));
    const session = await open(path);
    await session.append(hello);
    expect(readFileSync(`${path}.v1`, "utf8")).toBe(`${V1.join("\n")}\n`);
    expect((await open(path, "read")).tree.length).toBe(7);
  });

  test("does not happen in a session opened for reading, or after closing", async () => {
    const path = write(V1);
    const reader = await open(path, "read");
    await expect(reader.append(hello)).rejects.toMatchObject({ code: "read-only" });
    const closed = await open(path);
    await closed.close();
    await expect(closed.append(hello)).rejects.toMatchObject({ code: "closed" });
    expect(readFileSync(path, "utf8")).toBe(`${V1.join("\n")}\n`);
    expect(existsSync(`${path}.v1`)).toBe(false);
  });

  test("does not happen for a refused entry", async () => {
    const path = write(V1);
    const session = await open(path);
    await expect(session.append({ type: "message" } as never)).rejects.toMatchObject({
      code: "invalid-entry",
    });
    await expect(FileLog.open(path, "write").append(["two\nlines"])).rejects.toMatchObject({
      code: "invalid-entry",
    });
    expect(existsSync(`${path}.v1`)).toBe(false);
  });

  test("a fork of such a session has the current format", async () => {
    const session = await open(write(V1), "read");
    const lines = [...new ForkLines(session.tree, planFork(session.tree, session.leafId!))];
    expect(lines.map((line) => JSON.parse(Buffer.from(line as Uint8Array).toString()))).toEqual(
      session.getBranch(),
    );
  });
});

describe("a session of the second format", () => {
  const V2 = [
    { ...firstHeader, version: 2 },
    { id: "e1", parentId: null, ...said("one") },
    { id: "e2", parentId: "e1", ...said("hooked", "hookMessage") },
    { id: "e3", parentId: "e1", ...said("four", "assistant") },
  ].map((line) => JSON.stringify(line));

  test("keeps ids, branches, and the bytes of lines that need no change", async () => {
    const odd =
      '{ "type":"custom", "id":"e4", "parentId":"e3", "timestamp":"x", "customType":"t", "data":1.0e2 }';
    const path = write([...V2, odd]);
    const session = await open(path);
    expect([...session.tree.ids()]).toEqual(["e1", "e2", "e3", "e4"]);
    expect((session.getEntry("e2") as MessageEntry).message.role).toBe("custom");
    await session.append(hello);
    expect(readFileSync(path, "utf8").split("\n")[4]).toBe(odd);
    expect(readFileSync(`${path}.v2`, "utf8")).toBe(`${[...V2, odd].join("\n")}\n`);
    const reopened = await open(path);
    expect(reopened.context).toEqual(session.context);
    expect(reopened.header?.version).toBe(3);
    expect(reopened.tree.parentIdAt(reopened.tree.row("e3"))).toBe("e1");
  });
});
