import { bytesOf, header, line, linesOf, type Trial } from "./store-under-test.ts";

/** Creating, opening and closing sessions. */
export function openConformance({ test, expect }: Trial): void {
  test("a created session has its header and its lines, and opens by its ref", async (store) => {
    const made = header("s1", { parent: { sessionId: "s0", entryId: null, kind: "fork" } });
    const created = await store.create(made, [line("a"), line("b", "a")]);
    const opened = await store.open({ file: created.ref }, "read");
    for (const log of [created, opened]) {
      expect(log.header).toEqual(made);
      expect((await linesOf(log)).slice(1)).toEqual([line("a"), line("b", "a")]);
    }
  });

  test("unknown header keys are kept", async (store) => {
    const made = { ...header("s1"), "x-own": { deep: [1, "ü"] } };
    const { ref } = await store.create(made);
    expect((await store.open({ file: ref }, "read")).header).toEqual(made);
  });

  test("a header given as its line is kept byte for byte", async (store) => {
    const given = `{ "cwd":"/garden", "type" : "session","version":3.0,"id":"s1","timestamp":"2026-01-01T00:00:00.000Z" }`;
    const log = await store.create(given, [line("a")]);
    expect(log.header).toMatchObject({ id: "s1", version: 3 });
    expect(await linesOf(log)).toEqual([given, line("a")]);
    await expect(store.create(line("a"))).rejects.toMatchObject({ code: "invalid-entry" });
  });

  test("lines given as bytes stay unchanged, even if they are not text", async (store) => {
    const damaged = Uint8Array.of(...new TextEncoder().encode('{"type":"custom","id":"a'), 0xff, 0xc3, 0x22);
    const log = await store.create(header("s1"), [line("a"), damaged, line("b")]);
    const bytes = await bytesOf(log);
    const from = bytes.indexOf(0xff) - damaged.indexOf(0xff);
    expect([...bytes.subarray(from, from + damaged.length + 1)]).toEqual([...damaged, 10]);
  });

  test("lines can come from a generator, one at a time", async (store) => {
    function* many() {
      for (let at = 0; at < 500; at++) yield line(`e${at}`);
    }
    const log = await store.create(header("s1"), many());
    expect((await linesOf(log)).length).toBe(501);
  });

  test("creating a session never overwrites another one", async (store) => {
    const first = await store.create(header("s1"), [line("a")], undefined);
    await expect(store.create(header("s1"), [line("b")], first.ref)).rejects.toMatchObject({
      code: "exists",
    });
    expect((await linesOf(await store.open({ file: first.ref }, "read"))).slice(1)).toEqual([line("a")]);
  });

  test("a failed creation leaves no session", async (store) => {
    function* failing() {
      yield line("a");
      throw new Error("the source is gone");
    }
    await expect(store.create(header("s1"), failing())).rejects.toMatchObject({
      message: "the source is gone",
    });
    const log = await store.create(header("s1"), [line("b")]);
    expect((await linesOf(log)).slice(1)).toEqual([line("b")]);
  });

  test("a session that does not exist cannot be opened", async (store) => {
    await expect(store.open("nobody", "read")).rejects.toMatchObject({ code: "not-found" });
    await expect(store.open("nobody", "write")).rejects.toMatchObject({ code: "not-found" });
    await expect(store.open("", "read")).rejects.toMatchObject({ code: "not-found" });
  });

  test("sessions do not mix", async (store) => {
    const one = await store.create(header("s1"));
    const two = await store.create(header("s2"));
    await one.append([line("a")]);
    await two.append([line("b")]);
    expect((await linesOf(one)).slice(1)).toEqual([line("a")]);
    expect((await linesOf(two)).slice(1)).toEqual([line("b")]);
  });

  test("a session opened for reading cannot be written", async (store) => {
    const { ref } = await store.create(header("s1"), [line("a")]);
    const log = await store.open({ file: ref }, "read");
    await expect(log.append([line("b")])).rejects.toMatchObject({ code: "read-only" });
    expect((await linesOf(await store.open({ file: ref }, "read"))).length).toBe(2);
  });

  test("a closed session cannot be written", async (store) => {
    const log = await store.create(header("s1"), [line("a")]);
    await log.close();
    await log.close();
    await expect(log.append([line("b")])).rejects.toMatchObject({ code: "closed" });
    expect((await linesOf(await store.open({ file: log.ref }, "read"))).length).toBe(2);
  });
}
