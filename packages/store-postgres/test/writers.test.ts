import { readPathWindow, SessionTree } from "@espalier/session-tree";
import { testHeader as header, testLine as line } from "@espalier/session-tree/testing";
import { postgresStore } from "@espalier/store-postgres";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Acting } from "./acting.ts";
import { freshNamespace, hasServer, type SomeDatabase, someDatabase } from "./some-database.ts";

let shared: SomeDatabase;
beforeAll(async () => {
  shared = await someDatabase();
});
afterAll(() => shared.remove());

/** Entries that each of eight writers appends; the long form of this is `npm run harness -- postgres`. */
const EACH = 60;
const WRITERS = Array.from({ length: 8 }, (_, writer) => writer);

test("eight writers on one session: no entry is lost or repeated, and positions have no gaps", async () => {
  const namespace = freshNamespace();
  const stores = WRITERS.map(() => postgresStore(shared.open(), namespace));
  const { ref } = await stores[0]!.create(header("s1"));
  await Promise.all(
    stores.map(async (store, writer) => {
      const log = await store.open({ file: ref }, "write");
      for (let at = 0; at < EACH; at++) await log.append([line(`w${writer}-${at}`)]);
    }),
  );
  const log = await stores[0]!.open(ref, "read");
  const view = await log.load();
  const ids = new TextDecoder()
    .decode(view.read(0, view.size))
    .trimEnd()
    .split("\n")
    .slice(1)
    .map((each) => JSON.parse(each).id as string);
  expect(ids.length).toBe(WRITERS.length * EACH);
  expect(new Set(ids).size).toBe(ids.length);
  for (const writer of WRITERS)
    expect(ids.filter((id) => id.startsWith(`w${writer}-`))).toEqual(
      Array.from({ length: EACH }, (_, at) => `w${writer}-${at}`),
    );
  const database = shared.open();
  const [counted] = await database.query<{ lines: string; highest: string; bytes: string; ends: string }>(
    {
      text: `SELECT s.lines, s.bytes, max(l.position) + 1 AS highest, max(l.at + octet_length(l.line) + 1) AS ends
        FROM espalier.session s JOIN espalier.line l ON l.session = s.key
        WHERE s.namespace = $1 GROUP BY s.lines, s.bytes`,
    },
    [namespace],
  );
  expect(Number(counted!.highest)).toBe(Number(counted!.lines));
  expect(Number(counted!.ends)).toBe(Number(counted!.bytes));
  expect(Number(counted!.lines)).toBe(ids.length + 1);
  await Promise.all([database.close(), ...stores.map((store) => store.close())]);
});

test("a follower gets every line once, in order, with or without hints", async () => {
  const namespace = freshNamespace();
  const [writer, other, follower] = [1, 2, 3].map(() => postgresStore(shared.open(), namespace));
  const { ref } = await writer!.create(header("s1"));
  const ending = new AbortController();
  const heard: { position: number; id: string }[] = [];
  const following = (async () => {
    for await (const { position, line: bytes } of follower!.follow(ref, {
      from: 1,
      signal: ending.signal,
      pollMs: 200,
    })) {
      heard.push({ position, id: JSON.parse(new TextDecoder().decode(bytes)).id });
      if (heard.length === 80) ending.abort();
    }
  })();
  await Promise.all(
    [writer!, other!].map(async (store, at) => {
      const log = await store.open({ file: ref }, "write");
      for (let n = 0; n < 40; n++) await log.append([line(`${at}-${n}`)]);
    }),
  );
  await following;
  expect(heard.map(({ position }) => position)).toEqual(Array.from({ length: 80 }, (_, at) => at + 1));
  expect(new Set(heard.map(({ id }) => id)).size).toBe(80);
  await Promise.all([writer!, other!, follower!].map((store) => store.close()));
});

test("a follower gets no line of a later session with the same name", async () => {
  const store = postgresStore(shared.open(), freshNamespace());
  const log = await store.create(header("s1"), [line("a")]);
  const ending = new AbortController();
  const lines = store.follow({ file: log.ref }, { from: 1, signal: ending.signal, pollMs: 20 });
  expect((await lines.next()).value).toMatchObject({ position: 1 });
  const next = lines.next();
  await store.delete({ file: log.ref });
  await store.create(header("s1"), [line("b"), line("c")]);
  setTimeout(() => ending.abort(), 500);
  expect(await next).toEqual({ done: true, value: undefined });
  await store.close();
});

test("a repeated line is written once; another one with the same id is a conflict", async () => {
  const namespace = freshNamespace();
  const store = postgresStore(shared.open(), namespace);
  const log = await store.create(header("s1"));
  const batch = [line("a"), line("b", "a")];
  const first = await log.append(batch);
  const other = await store.open({ file: log.ref }, "write");
  expect(await other.append(batch)).toMatchObject({ length: 0, to: first.to });
  expect(await other.append([line("b", "a"), line("c", "b")])).toMatchObject({ offset: first.to });
  await expect(other.append([line("a", null, "something else")])).rejects.toMatchObject({
    code: "duplicate-id",
  });
  await expect(other.append([line("d", "nobody")])).rejects.toMatchObject({ code: "unknown-parent" });
  const view = await other.load();
  expect(readPathWindow(view).entries.map(({ id }) => id)).toEqual(["a", "b", "c"]);
  await store.close();
});

describe.skipIf(!hasServer)("on a server", () => {
  test("a hint arrives long before the next check", async () => {
    const store = postgresStore(shared.open(), freshNamespace());
    const log = await store.create(header("s1"));
    const lines = store.follow({ file: log.ref }, { pollMs: 3_600_000 });
    const next = lines.next();
    // Until it listens, nobody hears: so it is told again and again.
    let isOver = false;
    void next.then(() => {
      isOver = true;
    });
    for (let n = 0; !isOver; n++) {
      await log.append([line(`e${n}`)]);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    expect((await next).value).toMatchObject({ position: 1 });
    await lines.return(undefined);
    await store.close();
  });

  test("a follower is notified without waiting for the next check, although the listening connection was cut", async () => {
    const store = postgresStore(shared.open(), freshNamespace());
    const log = await store.create(header("s1"));
    const lines = store.follow({ file: log.ref }, { pollMs: 3_600_000 });
    const database = shared.open();
    const listening = () =>
      database.query<{ pid: number }>({
        text: "SELECT pid FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND state = 'idle'",
      });
    const next = lines.next();
    let heard: { pid: number }[] = [];
    while (heard.length === 0) heard = await listening();
    const [{ pid }] = heard as [{ pid: number }];
    await database.query({ text: "SELECT pg_terminate_backend($1)" }, [pid]);
    await log.append([line("a")]);
    expect((await next).value).toMatchObject({ position: 1 });
    await lines.return(undefined);
    await Promise.all([store.close(), database.close()]);
  });

  test("a client killed between the commit and the answer appends again, and nothing is repeated", async () => {
    const namespace = freshNamespace();
    const store = postgresStore(shared.open(), namespace);
    const { ref } = await store.create(header("s1"));
    const acting = new Acting(shared.server!.url, namespace, ref);
    await acting.killBackends(6);
    const session = await SessionTree.open(await store.open({ file: ref }, "read"));
    await session.load();
    const ids = [...session.tree.ids()];
    for (const id of acting.acknowledged) expect(ids).toContain(id);
    expect(ids.length).toBe(new Set(ids).size);
    expect(session.tree.issues).toEqual([]);
    expect(ids).toEqual(acting.asked.filter((id) => ids.includes(id)));
    await store.close();
  });
});
