import type { SessionListing, SessionStore } from "../../store/store.ts";
import { growEntries } from "../grow-tree.ts";
import { codeOf, header, line, linesOf, type Trial } from "./store-under-test.ts";

async function all(store: SessionStore): Promise<SessionListing[]> {
  const found: SessionListing[] = [];
  for await (const listing of store.list()) found.push(listing);
  return found;
}

/** Waits longer than the clock resolution of any file system. */
const moment = () => new Promise((resolve) => setTimeout(resolve, 15));

/** Listing and deleting sessions. */
export function listConformance({ test, expect }: Trial): void {
  test("a listing has the facts of its session", async (store) => {
    const parent = { sessionId: "s0", entryId: "e", kind: "subagent" } as const;
    const entries = growEntries(`n1("old name") > u1("What grows here?") > a1 > k1 > u2 > n2("The garden")`);
    const lines = entries.map((entry) => JSON.stringify(entry));
    const log = await store.create(header("s1", { parent }), lines);
    const [listing, ...others] = await all(store);
    expect(others).toEqual([]);
    expect(listing).toMatchObject({
      id: "s1",
      ref: log.ref,
      cwd: "/garden",
      name: "The garden",
      firstMessage: "What grows here?",
      updatedAt: entries.at(-1)!.timestamp,
      lastCompaction: entries[3]!.timestamp,
      bytes: (await log.load()).size,
      parent,
    });
    expect(Number.isNaN(Date.parse(listing!.modified))).toBe(false);
  });

  test("blocks of an agent and lone slash commands are not listed as the first message", async (store) => {
    const commands = `u1("<command-name>/clear</command-name>") > u2("/mode")`;
    const lines = growEntries(`${commands} > u3("What grows here?")`).map((entry) => JSON.stringify(entry));
    await store.create(header("s1"), lines.slice(0, 2));
    await store.create(header("s2"), lines);
    const found = new Map((await all(store)).map(({ id, firstMessage }) => [id, firstMessage]));
    expect(found).toEqual(
      new Map([
        ["s1", null],
        ["s2", "What grows here?"],
      ]),
    );
  });

  test("a session without entries is listed too", async (store) => {
    await store.create(header("s1"));
    const [listing] = await all(store);
    expect(listing).toMatchObject({
      id: "s1",
      name: null,
      firstMessage: null,
      updatedAt: header("s1").timestamp,
      lastCompaction: null,
      parent: null,
    });
  });

  test("a session is as new as its creation where its entries are older, as in a fork", async (store) => {
    const timestamp = "2036-05-06T07:08:09.000Z";
    await store.create(header("s1", { timestamp }), [line("a")]);
    expect((await all(store))[0]).toMatchObject({ updatedAt: timestamp });
  });

  test("an entry without a timestamp leaves the time of the one before it, or of the creation", async (store) => {
    const lines = growEntries("u1 > k1 > u2 > k2").map((entry) => JSON.stringify(entry));
    const timeless = lines.map((line) => line.replace(/,"timestamp":"[^"]*"/, ""));
    await store.create(header("s1"), timeless);
    expect((await all(store))[0]).toMatchObject({
      updatedAt: header("s1").timestamp,
      lastCompaction: null,
    });
    const log = await store.create(header("s2"), [lines[0]!, lines[1]!, timeless[2]!]);
    await log.append([timeless[3]!]);
    const { timestamp } = JSON.parse(lines[1]!);
    expect((await all(store)).find(({ id }) => id === "s2")).toMatchObject({
      updatedAt: timestamp,
      lastCompaction: timestamp,
    });
  });

  test("the session written last comes first", async (store) => {
    const one = await store.create(header("s1"));
    await moment();
    await store.create(header("s2"));
    expect((await all(store)).map(({ id }) => id)).toEqual(["s2", "s1"]);
    await moment();
    await one.append([line("a")]);
    expect((await all(store)).map(({ id }) => id)).toEqual(["s1", "s2"]);
  });

  test("an empty store has an empty list", async (store) => {
    expect(await all(store)).toEqual([]);
  });

  test("sessions can be deleted while they are listed", async (store) => {
    for (const id of ["a", "b", "c"]) await (await store.create(header(id))).close();
    const found: string[] = [];
    for await (const { id } of store.list()) {
      found.push(id);
      for (const other of ["a", "b", "c"]) if (found.length === 1 && other !== id) await store.delete(other);
    }
    expect((await all(store)).map(({ id }) => id)).toEqual(found.slice(0, 1));
  });

  test("a log of a deleted session writes nothing into a later one with the same name", async (store) => {
    const log = await store.create(header("s1"), [line("a")]);
    const isRefused = async () => ["removed", "changed"].includes(await codeOf(log.append([line("b")])));
    await store.delete({ file: log.ref });
    expect(await isRefused()).toBe(true);
    const later = await store.create(header("s1"), [line("c")]);
    expect(later.ref).toBe(log.ref);
    expect(await isRefused()).toBe(true);
    expect((await linesOf(await store.open("s1", "read"))).slice(1)).toEqual([line("c")]);
  });

  test("deleting a session removes only that session", async (store) => {
    const one = await store.create(header("s1"));
    const two = await store.create(header("s2"), [line("a")]);
    await one.close();
    const reading = await store.open({ file: one.ref }, "read");
    expect(await store.delete({ file: one.ref })).toEqual([one.ref]);
    const { code } = (await reading.takeIn().catch((error: unknown) => error)) as { code?: string };
    expect(code === "removed" || code === "changed").toBe(true);
    await reading.close();
    expect((await all(store)).map(({ id }) => id)).toEqual(["s2"]);
    await expect(store.open({ file: one.ref }, "read")).rejects.toMatchObject({ code: "not-found" });
    await expect(store.delete({ file: one.ref })).rejects.toMatchObject({ code: "not-found" });
    expect((await (await store.open({ file: two.ref }, "read")).readPath()).leafId).toBe("a");
  });
}
