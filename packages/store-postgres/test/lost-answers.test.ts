import { type DatabaseErrorCode, EspalierError } from "@espalier/jsonl-stream";
import { custom, ForkLines, forkHeader, planFork, SessionTree, Tree } from "@espalier/session-tree";
import { testHeader as header, testLine as line } from "@espalier/session-tree/testing";
import { type Database, postgresStore } from "@espalier/store-postgres";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { freshNamespace, type SomeDatabase, someDatabase } from "./some-database.ts";

let shared: SomeDatabase;
beforeAll(async () => {
  shared = await someDatabase();
});
afterAll(() => shared.remove());

/** A database with something of its own. */
const like = (database: Database, own: Partial<Database>): Database => ({
  place: database.place,
  reconnectMs: 10_000,
  query: (statement, values) => database.query(statement, values),
  transaction: (act) => database.transaction(act),
  reserve: () => database.reserve(),
  close: () => database.close(),
  ...own,
});

const lost = () => new EspalierError("unreachable", "The answer was lost on its way.");

/** The first transaction is committed, and its answer is lost. Then `meanwhile` runs before it is repeated. */
function losing(database: Database, meanwhile?: () => Promise<unknown>): Database {
  let isLost = false;
  return like(database, {
    async transaction(act) {
      const result = await database.transaction(act);
      if (isLost) return result;
      isLost = true;
      await meanwhile?.();
      throw lost();
    },
  });
}

/** The first insertion of lines is committed, and its answer is lost; `lose` is called then. */
function losingInsert(database: Database, lose: () => void): Database {
  let isLost = false;
  return like(database, {
    async query(statement, values) {
      const rows = await database.query(statement, values);
      if (isLost || statement.name !== "espalier-insert") return rows as never;
      isLost = true;
      lose();
      throw lost();
    },
  });
}

const idsOf = (tree: Tree) => [...tree.ids()];

test("a session whose creation was committed without an answer is created once", async () => {
  const store = postgresStore(losing(shared.open()), freshNamespace());
  const log = await store.create(header("s1"), [line("a"), line("b", "a")]);
  expect(idsOf(new Tree(await log.load()))).toEqual(["a", "b"]);
  await store.close();
});

test("a session whose creation is still running when it is retried is created once", async () => {
  const database = shared.open();
  let slow: Promise<unknown> | undefined;
  const store = postgresStore(
    like(database, {
      async transaction(act) {
        if (slow) return database.transaction(act);
        let begun = () => {};
        const isBegun = new Promise<void>((resolve) => {
          begun = resolve;
        });
        slow = database.transaction(async (connection) => {
          const result = await act(connection);
          begun();
          await new Promise((resolve) => setTimeout(resolve, 300));
          return result;
        });
        await isBegun;
        throw lost();
      },
    }),
    freshNamespace(),
  );
  const log = await store.create(header("s1"), [line("a")]);
  await slow;
  expect(idsOf(new Tree(await log.load()))).toEqual(["a"]);
  await store.close();
});

test("a fork inside the database whose creation was committed without an answer is created once", async () => {
  const namespace = freshNamespace();
  const source = await postgresStore(shared.open(), namespace).create(header("s1"), [
    line("a"),
    line("b", "a"),
  ]);
  const tree = new Tree(await source.load());
  const plan = planFork(tree, "a");
  const made = forkHeader(source.header!, source.ref, plan.leafId, "2026-01-02T00:00:00.000Z");
  const store = postgresStore(losing(shared.open()), namespace);
  const fork = await store.create(made, new ForkLines(tree, plan));
  expect(idsOf(new Tree(await fork.load()))).toEqual(["a"]);
  const session = await SessionTree.open(fork);
  await session.append(custom.of({ customType: "test" }));
  expect(session.window.entries).toHaveLength(2);
  await store.close();
});

test("an append at the expected leaf that was committed without an answer is written once", async () => {
  const lose = vi.fn();
  const store = postgresStore(losingInsert(shared.open(), lose), freshNamespace());
  const session = await SessionTree.open(await store.create(header("s1"), [line("a")]));
  const [entry] = await session.append(custom.of({ customType: "test" }), { ifLeaf: "a" });
  expect(lose).toHaveBeenCalledOnce();
  expect(idsOf(await session.load())).toEqual(["a", entry!.id]);
  await store.close();
});

test.each([false, true])(
  "lines that the table has no id for and that were committed without an answer are written once, ifUnchanged: %s",
  async (ifUnchanged) => {
    const lose = vi.fn();
    const store = postgresStore(losingInsert(shared.open(), lose), freshNamespace());
    const long = "x".repeat(1_000);
    const log = await store.create(header("s1"), [line(`${long}1`)]);
    const added = [line(`${long}2`, `${long}1`), line("b", `${long}2`)];
    await log.append(added, { ifUnchanged });
    expect(lose).toHaveBeenCalledOnce();
    await log.append([line(`${long}3`, "b")], { ifUnchanged });
    const tree = new Tree(await log.load());
    expect(idsOf(tree)).toEqual([`${long}1`, `${long}2`, "b", `${long}3`]);
    expect(tree.issues).toEqual([]);
    await store.close();
  },
);

test("observers receive the lines that another writer appended behind an append without an answer", async () => {
  const namespace = freshNamespace();
  const database = shared.open();
  const other = postgresStore(shared.open(), namespace);
  const { ref } = await other.create(header("s1"), [line("a")]);
  let isLost = false;
  const store = postgresStore(
    like(database, {
      async query(statement, values) {
        const rows = await database.query(statement, values);
        if (isLost || statement.name !== "espalier-insert") return rows as never;
        isLost = true;
        await (await other.open(ref, "write")).append([line("theirs", "a")]);
        throw lost();
      },
    }),
    namespace,
  );
  const session = await SessionTree.open(await store.open(ref, "write"));
  const tree = await session.load();
  const told: unknown[] = [];
  session.subscribe((change) => told.push(change.type === "foreign" ? change : change.type));
  await session.append(custom.of({ customType: "test" }));
  const to = (await session.log.load()).size;
  const from = to - line("theirs", "a").length - 1;
  expect(told).toEqual(["appended", { type: "foreign", from, to }]);
  expect([...tree.ids()].at(-1)).toBe("theirs");
  await Promise.all([store.close(), other.close()]);
});

test.each<[string, Record<string, ("lost" | DatabaseErrorCode)[]>]>([
  ["the lines of another writer above it cannot be read", { "espalier-fetch": ["timeout"] }],
  ["its repetition waits too long for a lock", { "espalier-insert": ["lost"], repetition: ["timeout"] }],
  ["its repetition is refused", { "espalier-insert": ["lost"], repetition: ["refused"] }],
])("an append that was committed says so when %s", async (_, failures) => {
  const database = shared.open();
  const namespace = freshNamespace();
  const other = await postgresStore(shared.open(), namespace).create(header("s1"), [line("a")]);
  let isFailing = false;
  const store = postgresStore(
    like(database, {
      async query(statement, values) {
        const failure = isFailing ? failures[statement.name ?? ""]?.shift() : undefined;
        if (failure && failure !== "lost") throw new EspalierError(failure, "It fails.");
        const rows = await database.query(statement, values);
        if (failure) throw lost();
        return rows as never;
      },
      async transaction(act) {
        const failure = isFailing ? failures["repetition"]?.shift() : undefined;
        if (failure && failure !== "lost") throw new EspalierError(failure, "It fails.");
        return database.transaction(act);
      },
    }),
    namespace,
  );
  const session = await SessionTree.open(await store.open({ file: other.ref }, "write"));
  await session.load();
  await other.append([line("b", "a")]);
  isFailing = true;
  await expect(session.append(custom.of({ customType: "test" }))).rejects.toThrow(/may have been written/);
  await session.refresh();
  expect(session.tree.length).toBe(3);
  await store.close();
});

test("an append on another branch says that its entries are written when their path cannot be read", async () => {
  const database = shared.open();
  let isFailing = false;
  const store = postgresStore(
    like(database, {
      reconnectMs: 0,
      query: (statement, values) =>
        isFailing && statement.name === "espalier-walk"
          ? Promise.reject(lost())
          : database.query(statement, values),
    }),
    freshNamespace(),
  );
  const session = await SessionTree.open(await store.create(header("s1"), [line("a"), line("b", "a")]));
  isFailing = true;
  const entry = custom.of({ customType: "test", parentId: "a" });
  await expect(session.append(entry)).rejects.toMatchObject({
    code: "unreadable",
    message: expect.stringMatching(/entries are written; open the session again/),
  });
  expect(idsOf(await session.load())).toHaveLength(3);
  await store.close();
});

test.each(["a session", "a fork inside the database"])(
  "the creation of %s whose answer is lost for good says that it may be done",
  async (what) => {
    const database = shared.open();
    let isFailing = false;
    const store = postgresStore(
      like(database, {
        reconnectMs: 0,
        async query(statement, values) {
          const rows = await database.query(statement, values);
          if (isFailing && statement.name === "espalier-create") throw lost();
          return rows as never;
        },
        async transaction(act) {
          await database.transaction(act);
          throw lost();
        },
      }),
      freshNamespace(),
    );
    const source = await store.create(header("s1"), [line("a")]);
    const tree = new Tree(await source.load());
    const plan = planFork(tree, "a");
    const made = forkHeader(source.header!, source.ref, plan.leafId, "2026-01-02T00:00:00.000Z");
    isFailing = true;
    const creating =
      what === "a session" ? store.create(header("s2")) : store.create(made, new ForkLines(tree, plan));
    await expect(creating).rejects.toMatchObject({
      code: "write-failed",
      message: expect.stringMatching(/may have been created all the same/),
    });
    expect((await store.open(what === "a session" ? "s2" : made.id, "read")).header).toBeDefined();
    await store.close();
  },
);

test("a session of an old format that was upgraded without an answer continues behind other writers", async () => {
  const database = shared.open();
  const other = postgresStore(shared.open(), freshNamespace());
  const old = `{"type":"session","id":"old","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/garden"}`;
  const { ref } = await other.create(old, ['{"type":"custom","customType":"test","timestamp":"t"}']);
  const append = async () => (await other.open({ file: ref }, "write")).append([line("theirs")]);
  const store = postgresStore(losing(database, append), other.namespace);
  const session = await SessionTree.open(await store.open({ file: ref }, "write"));
  const [entry] = await session.append(custom.of({ customType: "test" }));
  expect(session.window.entries).toHaveLength(2);
  expect(idsOf(await session.load()).slice(1)).toEqual(["theirs", entry!.id]);
  await Promise.all([store.close(), other.close()]);
});

test("sessions are listed and found by their ids and names after a lost answer", async () => {
  const namespace = freshNamespace();
  await postgresStore(shared.open(), namespace).create(header("pear"));
  const database = shared.open();
  const seen = new Set<string>();
  const store = postgresStore(
    like(database, {
      async query(statement, values) {
        if (seen.has(statement.text)) return database.query(statement, values);
        seen.add(statement.text);
        throw lost();
      },
    }),
    namespace,
  );
  const refs: string[] = [];
  for await (const { ref } of store.list()) refs.push(ref);
  expect(refs).toEqual(["pear"]);
  for (const named of ["pear", { file: "pear" }]) expect((await store.open(named, "read")).ref).toBe("pear");
  await store.close();
});

test("a session that was removed without an answer is removed, and so are its originals", async () => {
  const database = shared.open();
  let isGone = false;
  const store = postgresStore(
    like(database, {
      reconnectMs: 200,
      async query(statement, values) {
        if (isGone && statement.name === "espalier-release") throw lost();
        const rows = await database.query(statement, values);
        if (isGone || !statement.text.includes("DELETE FROM espalier.session")) return rows as never;
        isGone = true;
        throw lost();
      },
    }),
    freshNamespace(),
  );
  const old = `{"type":"session","id":"old","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/garden"}`;
  const log = await store.create(old, ['{"type":"custom","customType":"test","timestamp":"t"}']);
  await (await SessionTree.open(log)).append(custom.of({ customType: "test" }));
  expect(await store.delete("old")).toEqual(["old", "old.v1"]);
  await expect(store.open("old", "read")).rejects.toMatchObject({ code: "not-found" });
  await store.close();
});

test("a loaded session stays loaded when the connection is lost while it reads much of another writer", async () => {
  const database = shared.open();
  const namespace = freshNamespace();
  const other = await postgresStore(shared.open(), namespace).create(header("s1"), [line("a")]);
  let pages = 0;
  const store = postgresStore(
    like(database, {
      reconnectMs: 0,
      query: (statement, values) =>
        statement.name === "espalier-fetch" && pages++ === 2
          ? Promise.reject(lost())
          : database.query(statement, values),
    }),
    namespace,
  );
  const session = await SessionTree.open(await store.open({ file: other.ref }, "write"));
  await session.load();
  for (const id of ["b", "c"]) await other.append([line(id, "a", "x".repeat(5_000_000))]);
  await expect(session.refresh()).rejects.toMatchObject({ code: "unreadable" });
  await session.append(custom.of({ customType: "test" }));
  expect(idsOf(session.tree)).toHaveLength(4);
  await store.close();
});

test("a listing fails as unreadable if the connection is lost, like any other reading", async () => {
  const database = shared.open();
  const store = postgresStore(
    like(database, {
      reconnectMs: 0,
      query: (statement, values) =>
        statement.text.includes("ORDER BY s.modified")
          ? Promise.reject(lost())
          : database.query(statement, values),
    }),
    freshNamespace(),
  );
  await expect(store.list()[Symbol.asyncIterator]().next()).rejects.toMatchObject({
    name: "EspalierError",
    code: "unreadable",
  });
  await store.close();
});

test("a connection that cannot hold a lease is returned", async () => {
  const database = shared.open();
  let released = 0;
  const store = postgresStore(
    like(database, {
      reserve: async () => ({
        query: () => Promise.reject(new EspalierError("refused", "No locks today.")),
        onNotification: () => undefined,
        over: new Promise(() => undefined),
        release: async () => void released++,
      }),
    }),
    freshNamespace(),
  );
  await store.create(header("s1"));
  await expect(store.lease("s1")).rejects.toMatchObject({ code: "refused" });
  expect(released).toBe(1);
  await store.close();
});
