import { custom, SessionTree } from "@espalier/session-tree";
import { testHeader as header } from "@espalier/session-tree/testing";
import { migrate, type PostgresStore, postgresStore } from "@espalier/store-postgres";
import { afterAll, beforeAll, expect, test } from "vitest";
import { freshNamespace, type SomeDatabase, someDatabase } from "./some-database.ts";

let shared: SomeDatabase;
let namespace: string;
let store: PostgresStore;
beforeAll(async () => {
  shared = await someDatabase();
  namespace = freshNamespace();
  store = postgresStore(shared.open(), namespace);
});
afterAll(async () => {
  await store.close();
  await shared.remove();
});

const next = custom.of({ customType: "test", data: "next" });
const said = (text: string, place = "") =>
  `{"type":"message",${place}"timestamp":"2026-01-01T00:00:01.000Z","message":{"role":"user","content":"${text}","timestamp":1}}`;
const FIRST = `{"type":"session","id":"first","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/garden"}`;
const makeFirst = (ref: string) => store.create(FIRST, [said("one"), said("two")], ref);

test("a follower of an old session continues when it is upgraded", async () => {
  const log = await makeFirst("followed");
  const seen: string[] = [];
  const decoder = new TextDecoder();
  for await (const { position, line } of store.follow({ file: log.ref }, { from: 0, pollMs: 20 })) {
    expect(position).toBe(seen.length);
    seen.push(decoder.decode(line));
    if (seen.length === 3) await (await SessionTree.open(log)).append(next);
    if (seen.length === 4) break;
  }
  expect(seen.slice(0, 3)).toEqual([FIRST, said("one"), said("two")]);
  expect(JSON.parse(seen[3]!)).toMatchObject({ type: "custom", data: "next" });
});

test("views show an upgraded session once, in its current form", async () => {
  const log = await makeFirst("viewed");
  const ids = (await SessionTree.open(log)).getBranch().map(({ id }) => id);
  const seen = () =>
    shared.open().transaction(async (connection) => {
      await connection.query({ text: "SELECT set_config('espalier.namespace', $1, true)" }, [namespace]);
      return connection.query<{ id: string; session_id: string; content: string }>({
        text: "SELECT id, session_id, content FROM espalier.session_message WHERE session_id LIKE 'viewed%' ORDER BY content",
      });
    });
  const wanted = ["one", "two"].map((content, at) => ({ id: ids[at], session_id: "viewed", content }));
  expect(await seen()).toEqual(wanted);
  await (await SessionTree.open(log)).append(next);
  expect(await seen()).toEqual(wanted);
});

test("of two first writers at the same moment one upgrades the session, and the other gets an error", async () => {
  for (let round = 0; round < 5; round++) {
    const { ref } = await makeFirst(`raced-${round}`);
    const writers = await Promise.all(
      [1, 2, 3].map(async () => SessionTree.open(await store.open({ file: ref }, "write"))),
    );
    const ends = await Promise.allSettled(writers.map((writer) => writer.append(next)));
    const told = ends.flatMap((end) =>
      end.status === "rejected" ? [(end.reason as { code: string }).code] : [],
    );
    expect(told).toEqual(["changed", "changed"]);
    const now = await SessionTree.open(await store.open({ file: ref }, "read"));
    expect((await now.load()).length).toBe(3);
    const original = await store.open({ file: `${ref}.v1` }, "read");
    await original.load();
    expect(original.upgraded?.original.size).toBe([FIRST, said("one"), said("two"), ""].join("\n").length);
  }
});

test("a name that is already taken for the original prevents writing an old format", async () => {
  const log = await makeFirst("named");
  await store.create(header("other"), [], "named.v1");
  await expect(log.append([JSON.stringify({ ...next, id: "x", parentId: null })])).rejects.toMatchObject({
    code: "exists",
  });
  expect((await (await store.open({ file: "named" }, "read")).load()).size).toBe((await log.load()).size);
  expect((await store.open({ file: "named" }, "read")).header?.version).toBe(1);
  expect(await store.delete({ file: "named" })).toEqual(["named"]);
  expect((await store.open({ file: "named.v1" }, "read")).header?.id).toBe("other");
});

test("a damaged old format is upgraded as it is read", async () => {
  const damaged = Uint8Array.of(...new TextEncoder().encode('{"type":"message"'), 0xff);
  const log = await store.create(FIRST, [said("one"), damaged, "{torn", said("two")], "damaged");
  const session = await SessionTree.open(log);
  await session.load();
  const issues = session.tree.issues.map(({ kind, line }) => ({ kind, line }));
  expect(issues).toEqual([
    { kind: "corrupt", line: 3 },
    { kind: "corrupt", line: 4 },
  ]);
  await session.append(next);
  const again = await SessionTree.open(await store.open({ file: "damaged" }, "read"));
  await again.load();
  expect(again.tree.issues.map(({ kind, line }) => ({ kind, line }))).toEqual(issues);
  expect(again.getBranch()).toEqual(session.getBranch());
});

test("tables of the previous version are upgraded with their content", async () => {
  const database = shared.open();
  // As a program left them that knew nothing of originals.
  await database.query({ text: "ALTER TABLE espalier.session DROP COLUMN original_of CASCADE" });
  await database.query({ text: "ALTER TABLE espalier.session DROP COLUMN id CASCADE" });
  await database.query({ text: "DELETE FROM espalier.migration WHERE number >= 3" });
  const bare = postgresStore(shared.open(), namespace);
  await expect(bare.open({ file: "followed" }, "read")).rejects.toMatchObject({ code: "not-migrated" });
  expect((await migrate(database)).applied).toEqual(["3 originals", "4 ids"]);
  expect((await bare.open({ file: "followed" }, "read")).header?.id).toBe("first");
  // Several are kept under other names than their id.
  await expect(bare.open("first", "read")).rejects.toMatchObject({ code: "ambiguous" });
  await bare.close();
  await database.close();
});
