import { createHash } from "node:crypto";
import { formatLine } from "@espalier/jsonl-stream";
import {
  type Entry,
  ForkLines,
  forkHeader,
  planFork,
  readPathWindow,
  type SessionLog,
  SessionTree,
  Tree,
} from "@espalier/session-tree";
import { growEntries, testHeader as header, testLine as line } from "@espalier/session-tree/testing";
import { type PostgresStore, postgresStore } from "@espalier/store-postgres";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { freshNamespace, type SomeDatabase, someDatabase } from "./some-database.ts";

let shared: SomeDatabase;
let store: PostgresStore;
beforeAll(async () => {
  shared = await someDatabase();
  store = postgresStore(shared.open(), freshNamespace());
});
afterAll(async () => {
  await store.close();
  await shared.remove();
});

/** What an arbitrary entry is, and which of those before it it hangs on. */
const steps = fc.array(
  fc.record({
    kind: fc.constantFrom("u", "a", "k", "l", "s", "e", "m", "h", "x", "leaf"),
    parent: fc.nat(),
    kept: fc.nat(),
  }),
  { maxLength: 40 },
);

type Step = { kind: string; parent: number; kept: number };

/** Lines of a sound session that goes wherever the steps say. */
function grown(all: readonly Step[]): string[] {
  const entries: Record<string, unknown>[] = [];
  const at = (number: number) =>
    entries.length === 0 ? null : String(entries[number % entries.length]!["id"]);
  for (const [number, { kind, parent, kept }] of all.entries()) {
    const [entry] = growEntries(`${kind === "leaf" ? "x" : kind}1`) as unknown as Record<string, unknown>[];
    const id = `e${number}`;
    const target = at(parent);
    const own = { ...entry, id, parentId: target };
    if (kind === "leaf")
      entries.push({ type: "leaf", id, parentId: target, targetId: target, timestamp: "t" });
    else if (kind === "k") entries.push({ ...own, firstKeptEntryId: at(kept) ?? id });
    else if (kind === "l" || kind === "e") {
      if (target === null) continue;
      entries.push({ ...own, targetId: target });
    } else entries.push(own);
  }
  return entries.map((entry) => formatLine(entry));
}

let number = 0;
const make = (lines: readonly string[]) => store.create({ ...header("s"), id: `s${number++}` }, lines);

test("every path equals that of the whole log, although only the path is read", async () => {
  await fc.assert(
    fc.asyncProperty(steps, async (all) => {
      const lines = grown(all);
      const { ref } = await make(lines);
      const whole = await (await store.open({ file: ref }, "read")).load();
      const log = await store.open({ file: ref }, "read");
      expect(readPathWindow(whole)).toMatchObject(await log.readPath());
      for (const id of new Set(lines.map((each) => JSON.parse(each).id as string)))
        expect(readPathWindow(whole, id)).toMatchObject(await log.readPath(id));
      expect(log.view).toBe(undefined);
    }),
    { numRuns: 40 },
  );
});

test("settings far above the newest compaction are found", async () => {
  const filler = Array.from({ length: 700 }, (_, at) => `x${at}`).join(" > ");
  const entries = growEntries(`m1 > h1 > ${filler} > u1 > k1(u1) > u2`);
  const { ref } = await make(entries.map((entry) => formatLine(entry)));
  const log = await store.open({ file: ref }, "read");
  const path = await log.readPath();
  expect(path.entries.map(({ id }) => id)).toEqual(["u1", "k1", "u2"]);
  expect(path.before.thinkingLevel).not.toBe(undefined);
  expect(readPathWindow(await (await store.open({ file: ref }, "read")).load())).toMatchObject(path);
});

test("a session with any damage is kept byte for byte, and read like a file", async () => {
  const damaged = [
    line("a"),
    line("a", null, "another of this id"),
    line("b", "nobody"),
    "",
    '{"type":"custom","id":"c","parentId":"a"',
    line("d", "d"),
    line("e\u0000f", "a"),
    JSON.stringify({ type: "leaf", id: "g", parentId: "a", targetId: "b", timestamp: "t" }),
    "no json at all",
    line("z", "a"),
  ];
  const { ref } = await make(damaged);
  const log = await store.open({ file: ref }, "write");
  const whole = await (await store.open({ file: ref }, "read")).load();
  expect(new TextDecoder().decode(whole.read(0, whole.size)).split("\n").slice(1, -1)).toEqual(damaged);
  expect(readPathWindow(whole)).toMatchObject(await log.readPath());
  const session = await SessionTree.open(log);
  await session.append({ type: "custom", customType: "test" } as never);
  const again = await SessionTree.open(await store.open({ file: ref }, "read"));
  expect(again.leafId).toBe(session.leafId);
});

test("a session in another program's style is kept byte for byte, and only its path is read", async () => {
  const odd = [
    `${line("a")}\r`,
    "",
    line("b", "a").replace('"data"', '"\\u0000" : "\\ud800", "data"'),
    "  ",
    `${line("c", "b")} \r`,
  ];
  const { ref } = await make(odd);
  const log = await store.open({ file: ref }, "write");
  expect((await log.readPath()).entries.map(({ id }) => id)).toEqual(["a", "b", "c"]);
  expect(log.view).toBe(undefined);
  await log.append([line("d", "c")]);
  const whole = await (await store.open({ file: ref }, "read")).load();
  expect(new TextDecoder().decode(whole.read(0, whole.size)).split("\n").slice(1, -2)).toEqual(odd);
  expect(readPathWindow(whole)).toMatchObject(await log.readPath());
});

const bytesOf = async (log: SessionLog) => {
  const view = await log.load();
  return createHash("sha256").update(view.read(0, view.size)).digest("hex");
};

test("a fork copied inside the database has the same bytes as one copied over the wire", async () => {
  const entries = growEntries(`n1("trees") > u1("Hello") > a1 > l1(a1 "here") > u2 > k1(u2) > u3; a1 > u4`);
  const log = await make(entries.map((entry) => formatLine(entry)));
  const tree = new Tree(await log.load());
  for (const { id } of entries) {
    const plan = planFork(tree, id);
    const made = forkHeader(log.header!, log.ref, plan.leafId, "2026-01-02T00:00:00.000Z");
    const inside = await store.create(made, new ForkLines(tree, plan));
    const outside = await store.create(made, [...new ForkLines(tree, plan)], `${made.id}-outside`);
    expect(await bytesOf(inside)).toBe(await bytesOf(outside));
    const again = await store.open({ file: inside.ref }, "read");
    expect(await bytesOf(again)).toBe(await bytesOf(outside));
    expect(await again.readPath()).toEqual(await outside.readPath());
    await store.delete({ file: inside.ref });
    await store.delete({ file: outside.ref });
  }
});

test("the listing of a fork copied inside the database equals that of one copied line by line", async () => {
  const own = postgresStore(shared.open(), freshNamespace());
  const entries = growEntries(`n1("trees") > u1("Hello") > a1 > u2 > k1(u2) > u3`);
  const log = await own.create(
    header("s1"),
    entries.map((entry) => formatLine(entry)),
  );
  const tree = new Tree(await log.load());
  const plan = planFork(tree, "u3");
  const made = forkHeader(log.header!, log.ref, plan.leafId, "2026-01-02T00:00:00.000Z");
  await own.create(made, new ForkLines(tree, plan));
  await own.create(made, [...new ForkLines(tree, plan)], `${made.id}-outside`);
  await own.delete({ file: log.ref });
  const told: unknown[] = [];
  for await (const { name, firstMessage, updatedAt, lastCompaction } of own.list())
    told.push({ name, firstMessage, updatedAt, lastCompaction });
  expect(told.length).toBe(2);
  expect(told[0]).toEqual(told[1]);
  await own.close();
});

test("a context is read without the rest of the session, and an append reads no more", async () => {
  const rest = Array.from({ length: 2_000 }, (_, at) => `x${at}`).join(" > ");
  const entries: Entry[] = growEntries(`m1 > h1 > ${rest} > u1 > k1(u1) > m2 > h2 > u2`);
  const { ref } = await make(entries.map((entry) => formatLine(entry)));
  const session = await SessionTree.open(await store.open({ file: ref }, "write"));
  expect(session.context.sources).toEqual(["k1", "u1", "u2"]);
  const [first] = await session.append({ type: "custom", customType: "test" } as never);
  await session.append({ type: "custom", customType: "test", parentId: "u1" } as never);
  expect(session.window.entries.map(({ id }) => id)).not.toContain(first!.id);
  expect(session.log.view).toBe(undefined);
});

test("a list of several pages has every session once, the last written first", async () => {
  const store = postgresStore(shared.open(), freshNamespace());
  const names = Array.from({ length: 260 }, (_, at) => `s${at}`);
  for (const name of names) await store.create(header(name));
  const listed: string[] = [];
  for await (const { id } of store.list()) listed.push(id);
  expect(listed).toEqual(names.reverse());
  await store.close();
});

test("a name that is too long for a key is refused", async () => {
  const store = postgresStore(shared.open(), freshNamespace());
  await expect(store.create(header("s1"), [], "x".repeat(257))).rejects.toMatchObject({
    code: "invalid-entry",
    message: "The name of a session in a database has 1 to 256 characters; give it another one.",
  });
  await store.close();
});
