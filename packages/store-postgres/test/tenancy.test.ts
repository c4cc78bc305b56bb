import { SessionTree } from "@espalier/session-tree";
import { growTree, testHeader as header, testLine as line } from "@espalier/session-tree/testing";
import { type Database, type PostgresStore, postgresStore } from "@espalier/store-postgres";
import { afterAll, beforeAll, expect, test } from "vitest";
import { freshNamespace, type SomeDatabase, someDatabase } from "./some-database.ts";

let shared: SomeDatabase;
beforeAll(async () => {
  shared = await someDatabase();
});
afterAll(() => shared.remove());

/** A database that notes statements on tables of sessions that are not bound to one namespace by their first value. */
function watched(database: Database, namespace: string) {
  const strangers: string[] = [];
  const note = (text: string, values: readonly unknown[]) => {
    if (!/espalier\.(session|line|lease)\b/.test(text)) return;
    const isBound =
      /\b(key|session|namespace) = \$1\b/.test(text) ||
      /^(WITH \w+ AS \(\s*)?INSERT INTO \S+( AS held)?\s*\((key|session),/.test(text);
    const [given] = values as string[];
    if (!isBound || !(given === namespace || given?.startsWith(`${namespace}/`))) strangers.push(text);
  };
  const through: Database = {
    ...database,
    place: database.place,
    reconnectMs: database.reconnectMs,
    query: (statement, values = []) => {
      note(statement.text, values);
      return database.query(statement, values);
    },
    transaction: (act) =>
      database.transaction((connection) =>
        act({
          query: (statement, values = []) => {
            note(statement.text, values);
            return connection.query(statement, values);
          },
        }),
      ),
    reserve: () => database.reserve(),
    close: () => database.close(),
  };
  return { through, strangers };
}

/** Everything that can be done with a store. */
async function everything(store: PostgresStore): Promise<void> {
  const { session, ref } = await growTree("u1 > a1 > u2 > a2 > k1(u2) > u3", {
    store,
    header: { id: "grown" },
  });
  await session.moveTo("a1");
  await session.append({ type: "custom", customType: "test" } as never);
  await session.refresh();
  const far = await SessionTree.open(await store.open({ file: ref }, "write"));
  await far.load();
  const log = await store.open({ file: ref }, "write");
  await log.append([line("x")]);
  await log.append([line("x"), line("y", "x")]);
  const lease = await store.lease({ file: ref });
  await store.lease({ file: ref }).catch(() => undefined);
  await lease.release();
  for await (const each of store.list()) expect(each.ref).toBe(ref);
  for (const named of ["grown", { file: "grown" }]) await store.open(named, "read");
  for await (const { position } of store.follow({ file: ref }, { from: 0 })) if (position === 3) break;
  const old = `{"type":"session","id":"old","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/garden"}`;
  const first = await store.create(
    old,
    ['{"type":"custom","customType":"test","timestamp":"t"}'],
    "grown-old",
  );
  await (await SessionTree.open(first)).append({ type: "custom", customType: "test" } as never);
  await store.delete({ file: "grown-old" });
  await store.delete({ file: ref });
}

test("every statement on sessions names its namespace as a parameter", async () => {
  const namespace = freshNamespace();
  const { through, strangers } = watched(shared.open(), namespace);
  const store = postgresStore(through, namespace);
  await everything(store);
  expect(strangers).toEqual([]);
  await store.close();
});

test("no call reaches the sessions of another namespace, for any name", async () => {
  const mine = freshNamespace();
  const [one, other] = [postgresStore(shared.open(), mine), postgresStore(shared.open(), freshNamespace())];
  const log = await one.create(header("secret"), [line("a")]);
  const size = (await log.load()).size;
  const refusals = [
    () => other.open("secret", "read"),
    () => other.open("secret", "write"),
    () => other.open("secr", "read"),
    () => other.lease("secret"),
    () => other.delete("secret"),
    () => other.follow("secret").next(),
  ];
  for (const refused of refusals) await expect(refused()).rejects.toMatchObject({ code: "not-found" });
  for await (const each of other.list()) expect(each).toBeUndefined();
  // The same name is free for another tenant, and is another session.
  const own = await other.create(header("secret"), [line("b")]);
  await own.append([line("c", "b")]);
  await expect(own.append([line("d", "a")])).rejects.toMatchObject({ code: "unknown-parent" });
  const lease = await one.lease("secret");
  await (await other.lease("secret")).release();
  await other.delete("secret");
  await lease.release();
  expect(await log.takeIn()).toBe(null);
  expect((await (await one.open("secret", "read")).load()).size).toBe(size);
  expect((await log.readPath()).entries.map(({ id }) => id)).toEqual(["a"]);
  await Promise.all([one.close(), other.close()]);
});

test("views show only the namespace of the setting", async () => {
  const [mine, theirs] = [freshNamespace(), freshNamespace()];
  const database = shared.open();
  for (const namespace of [mine, theirs])
    await growTree("u1 > a1 > u2 > k1(u2) > u3 > x1; a1 > u4 > a4; u3 > a5", {
      store: postgresStore(database, namespace),
      header: { id: namespace },
    });
  const seen = (view: string) =>
    database.transaction(async (connection) => {
      await connection.query({ text: "SELECT set_config('espalier.namespace', $1, true)" }, [mine]);
      return connection.query<Record<string, unknown>>({ text: `SELECT * FROM espalier.${view}` });
    });
  const messages = await seen("session_message");
  expect(messages.every(({ session_id }) => session_id === mine)).toBe(true);
  const archived = Object.fromEntries(messages.map(({ id, is_archived }) => [id, is_archived]));
  expect(archived).toEqual({ u1: true, a1: true, u2: false, u3: false, a5: false });
  const [summary, ...more] = await seen("session_summary");
  expect(more).toEqual([]);
  expect(summary).toMatchObject({ id: "k1", session_id: mine, start_msg_id: "u1", end_msg_id: "a1" });
  expect(Object.keys(summary!)).toEqual([
    ...["id", "session_id", "summary", "start_msg_id", "end_msg_id", "msg_count", "created_at"],
  ]);
  expect(Number(summary!["msg_count"])).toBe(2);
  expect(await seen("token_stats")).toEqual([
    { session_id: mine, last_compaction: expect.stringMatching(/^2026-01-01T/) },
  ]);
  await database.close();
});
