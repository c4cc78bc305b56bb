import type { EspalierError } from "@espalier/jsonl-stream";
import type { SessionRef } from "../../entry/entry.ts";
import type { SessionStore } from "../../store/store.ts";
import { header, line, linesOf, type Trial } from "./store-under-test.ts";

/** Exact ids, and names in the store. */
export function idConformance({ test, expect }: Trial): void {
  test("a session opens by its id, as a text or { id }, and by its storage name", async (store) => {
    const { ref } = await store.create(header("s1"), [line("a")]);
    for (const named of ["s1", { id: "s1" }, { file: ref }]) {
      expect((await store.open(named, "read")).ref).toBe(ref);
      await (await store.lease(named)).release();
    }
    expect(await store.delete("s1")).toEqual([ref]);
  });

  test("the beginning of an id does not open, lease or delete a session", async (store) => {
    const { ref } = await store.create(header("user-12"), [line("a")]);
    for (const named of ["user-1", "u", "", { id: "user-1" }, "user-12 ", "USER-12"])
      await isNotFound(store, named);
    expect((await linesOf(await store.open("user-12", "read"))).length).toBe(2);
    expect((await store.open("user-12", "read")).ref).toBe(ref);
  });

  test("an id is never read as a path or a storage name", async (store) => {
    const { ref } = await store.create(header("s1"), [line("a")]);
    const elsewhere = await store.create(header("s2"), [], renamed(ref, "s1", "elsewhere"));
    for (const id of [elsewhere.ref, `./${ref}`, "../s1", "/", "s1/../s1", "a\0b"]) {
      await isNotFound(store, id);
      await isNotFound(store, { id });
    }
    expect((await store.open("s2", "read")).ref).toBe(elsewhere.ref);
  });

  test("a reference that is not valid is not found", async (store) => {
    await store.create(header("s1"));
    for (const none of [undefined, null, 7, {}, { id: 7 }, { id: "s1", file: "s1" }, { file: "" }])
      await expect(store.open(none as never, "read")).rejects.toMatchObject({ code: "not-found" });
  });

  test("an id is used once, even if the second session differs in other fields", async (store) => {
    const first = await store.create(header("s1"), [line("a")]);
    for (const other of [{}, { timestamp: "2027-01-01T00:00:00.000Z" }, { cwd: "/orchard" }])
      await expect(store.create(header("s1", other), [line("b")])).rejects.toMatchObject({ code: "exists" });
    expect((await linesOf(await store.open("s1", "read"))).slice(1)).toEqual([line("a")]);
    await first.close();
    await store.delete("s1");
    const again = await store.create(header("s1"), [line("c")]);
    expect((await linesOf(again)).slice(1)).toEqual([line("c")]);
  });

  test("an id stored under a name of the caller is taken too", async (store) => {
    const { ref } = await store.create(header("s0"));
    await store.create(header("s1"), [], renamed(ref, "s0", "elsewhere"));
    await expect(store.create(header("s1"))).rejects.toMatchObject({ code: "exists" });
  });

  test("an id that several sessions have, under other names, is ambiguous", async (store) => {
    const { ref } = await store.create(header("s0"));
    for (const name of ["one", "two"]) await store.create(header("s1"), [], renamed(ref, "s0", name));
    await expect(store.open("s1", "read")).rejects.toMatchObject({ code: "ambiguous" });
  });

  test("of many calls that create a session with one id at once, exactly one succeeds", async (store) => {
    const made = await Promise.all(
      Array.from({ length: 8 }, (_, at) =>
        store.create(header("s1", { timestamp: `2026-01-01T00:00:0${at}.000Z`, cwd: `/garden-${at}` })).then(
          (log) => log.ref,
          ({ code }: EspalierError) => code,
        ),
      ),
    );
    expect(made.filter((each) => each !== "exists").length).toBe(1);
    const [ref] = made.filter((each) => each !== "exists");
    expect((await store.open("s1", "read")).ref).toBe(ref);
  });

  test("ids with the same beginning are different sessions", async (store) => {
    const ids = ["s1", "s1.agent-a", "s1.agent-b", "s10", "S1"];
    for (const id of ids) await store.create(header(id), [line(id)]);
    for (const id of ids) expect((await linesOf(await store.open(id, "read"))).slice(1)).toEqual([line(id)]);
  });

  async function isNotFound(store: SessionStore, named: SessionRef): Promise<void> {
    await expect(store.open(named, "read")).rejects.toMatchObject({ code: "not-found" });
    await expect(store.lease(named)).rejects.toMatchObject({ code: "not-found" });
    await expect(store.delete(named)).rejects.toMatchObject({ code: "not-found" });
  }
}

/**
 * Returns a storage name with another id in it. Replaces the last occurrence, because folders above can contain the
 * same letters.
 */
function renamed(ref: string, id: string, to: string): string {
  const at = ref.lastIndexOf(id);
  return ref.slice(0, at) + to + ref.slice(at + id.length);
}
