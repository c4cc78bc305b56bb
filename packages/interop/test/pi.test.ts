import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { growEntries } from "@espalier/session-tree/testing";
import { describe, expect, test } from "vitest";
import {
  importAll,
  imported,
  opened,
  said,
  scratchFolder,
  scratchStore,
  writeLines,
} from "./import-scratch.ts";

const ID = "d703a1a9-1b7b-4fb1-b512-c9738b1fe617";
const NAME = `2026-11-21T20-00-00-000Z_${ID}.jsonl`;

const header = (fields: object = {}) => ({
  type: "session",
  version: 3,
  id: ID,
  timestamp: "2026-11-21T20:00:00.000Z",
  cwd: "/home/me/project",
  ...fields,
});

const tree = growEntries("u1 > a1 > u2 > a2; a1 > u3 > a3 > k1(u3) > u4 > l1(u1 mark) > n1(name)");

const write = (lines: readonly unknown[], folder = scratchFolder()) => writeLines(join(folder, NAME), lines);

describe("sessions of Pi", () => {
  test("without a header are imported with a new one, and this is reported", async () => {
    const { session, report } = await imported(write(tree), { store: scratchStore() });
    expect(report).toMatchObject({ status: "created", agent: "pi", entries: tree.length, branches: 2 });
    expect(report.issues).toMatchObject([{ kind: "no-header" }]);
    expect(session.header).toMatchObject({ type: "session", version: 3, cwd: "" });
    expect(session.header?.timestamp).toBe(tree[0]!.timestamp);
    expect(session.getBranch().length).toBeGreaterThan(0);
  });

  test("are copied line by line, byte by byte, and name their source", async () => {
    const path = write([header({ parentSession: "/old.jsonl", unheard: 1 }), ...tree]);
    const { session, report } = await imported(path, { store: scratchStore() });
    const lines = (file: string) => readFileSync(file, "utf8").split("\n").slice(1);
    expect(lines(report.file!)).toEqual(lines(path));
    expect(session.header).toMatchObject({
      id: ID,
      parentSession: "/old.jsonl",
      unheard: 1,
      importedFrom: { agent: "pi", version: "3", id: ID },
    });
    expect(report).toMatchObject({
      status: "created",
      entries: tree.length,
      added: tree.length,
      branches: 2,
      compactions: 1,
    });
  });

  test("of the first version are upgraded, with the same ids each time", async () => {
    const lines = [
      header({ version: undefined, provider: "anthropic" }),
      ...tree.slice(0, 4).map(({ id: _id, parentId: _parent, ...entry }) => entry),
      {
        type: "compaction",
        timestamp: "2026-11-21T20:00:09.000Z",
        summary: "old",
        firstKeptEntryIndex: 3,
        tokensBefore: 1,
      },
    ];
    const path = write(lines);
    const [first, second] = [await imported(path), await imported(path)];
    expect(first.session.header?.version).toBe(3);
    expect(said(first.session.context.messages)).toEqual([
      "compactionSummary: old",
      "user: u2",
      "assistant: a2",
    ]);
    expect(first.entries).toEqual(second.entries);
  });

  test("of the second version lose the old name of extension messages", async () => {
    const hook = {
      type: "message",
      id: "h1",
      parentId: null,
      timestamp: "2026-11-21T20:00:01.000Z",
      message: { role: "hookMessage", customType: "x", content: "put in", display: true, timestamp: 1 },
    };
    const { entries } = await imported(write([header({ version: 2 }), hook]));
    expect(entries).toMatchObject([{ message: { role: "custom", content: "put in" } }]);
  });

  test("of a newer version are copied, and this is reported", async () => {
    const { session, report } = await imported(write([header({ version: 4 }), ...tree]));
    expect(session.header?.version).toBe(4);
    expect(report.issues).toMatchObject([{ kind: "newer-version", line: 1 }]);
  });

  test("that are damaged are copied with their damage, and this is reported", async () => {
    const path = write([header(), ...tree.slice(0, 2), "{ torn", ...tree.slice(2, 3)]);
    writeFileSync(path, `${readFileSync(path, "utf8")}{"type":"message","id":"cut`);
    const { entries, report } = await imported(path, { store: scratchStore() });
    expect(entries.map(({ id }) => id)).toEqual(["u1", "a1", "u2"]);
    expect(readFileSync(report.file!, "utf8")).toContain("{ torn\n");
    expect(report.issues).toMatchObject([
      { kind: "unreadable-content", line: 4 },
      { kind: "unreadable-content", line: 6 },
    ]);
  });

  test("with lost newlines have one entry per line, and nothing is reported", async () => {
    const folder = scratchFolder();
    const store = scratchStore();
    const path = write([header(), ...tree], folder);
    const text = readFileSync(path, "utf8");
    const [first, ...others] = text.split("\n");
    writeFileSync(
      path,
      `${first}${others[0]}\n${others[1]}${others[2]}${others[3]}\n${others.slice(4).join("\n")}`,
    );
    const [report] = await importAll(path, store);
    expect(report).toMatchObject({ status: "created", entries: tree.length, issues: [] });
    const { entries } = await opened(store, report!);
    expect(entries).toEqual(tree);
    expect(readFileSync(report!.file!, "utf8").split("\n").slice(1)).toEqual(others);
    expect(await importAll(path, store)).toMatchObject([{ status: "unchanged", added: 0 }]);
  });

  test("that have grown add only their new entries", async () => {
    const folder = scratchFolder();
    const store = scratchStore();
    await importAll(write([header(), ...tree.slice(0, 4)], folder), store);
    const [report] = await importAll(write([header(), ...tree], folder), store);
    expect(report).toMatchObject({ status: "updated", added: tree.length - 4 });
    const { entries, session } = await opened(store, report!);
    expect(entries).toEqual(tree);
    expect(session.leafId).toBe("u4");
    expect(await importAll(join(folder, NAME), store)).toMatchObject([{ status: "unchanged", added: 0 }]);
  });

  test("that have grown by a line with readable ids only keep its successors connected", async () => {
    const folder = scratchFolder();
    const store = scratchStore();
    await importAll(write([header(), ...tree.slice(0, 2)], folder), store);
    const damaged = JSON.stringify(tree[2])
      .replace('"u2"}', '"\\x"}')
      .replace('"content":"u2"', '"content":"\\x"');
    const path = write([header(), ...tree.slice(0, 2), damaged, tree[3]], folder);
    const [report] = await importAll(path, store);
    expect(report).toMatchObject({ status: "updated", added: 2, entries: 4, branches: 1 });
    expect(report!.issues).toMatchObject([{ kind: "unreadable-content", line: 4 }]);
    const { session, entries } = await opened(store, report!);
    expect(entries.map(({ id, type }) => [id, type])).toEqual([
      ["u1", "message"],
      ["a1", "message"],
      ["u2", "damaged"],
      ["a2", "message"],
    ]);
    expect(session.tree.parentIdAt(3)).toBe("u2");
    expect(await importAll(path, store)).toMatchObject([{ added: 0 }]);
  });

  test("are found in Pi's folders", async () => {
    const home = scratchFolder();
    write([header(), ...tree], join(home, ".pi", "agent", "sessions", "--home-me-project--"));
    for (const env of [
      { HOME: home },
      { PI_CODING_AGENT_DIR: join(home, ".pi", "agent") },
      { PI_CODING_AGENT_SESSION_DIR: join(home, ".pi", "agent", "sessions") },
    ])
      expect(await importAll("pi", scratchStore(), { env })).toMatchObject([
        { status: "created", sessionId: ID },
      ]);
  });
});

const corpus = fileURLToPath(new URL("../../../../shared/corpus/pi/large-session.jsonl", import.meta.url));

describe.skipIf(!existsSync(corpus))("a real session of Pi (skipped without the corpus)", () => {
  test("is imported completely", async () => {
    const { report, session } = await imported(corpus);
    expect(report).toMatchObject({ entries: 1_018, issues: [] });
    expect(session.context.messages).toHaveLength(914);
  });
});
