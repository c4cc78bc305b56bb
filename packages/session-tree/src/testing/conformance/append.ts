import { bytesOf, header, line, linesOf, type Trial } from "./store-under-test.ts";

/** Appending. */
export function appendConformance({ test, expect }: Trial): void {
  test("an append returns the position of its lines", async (store) => {
    const log = await store.create(header("s1"), [line("a")]);
    const before = (await bytesOf(log)).length;
    const lines = [line("b"), line("ä")];
    const at = await log.append(lines);
    const own = new TextEncoder().encode(`${lines.join("\n")}\n`);
    expect(at).toEqual({ offset: before, length: own.length, from: before, to: before + own.length });
    expect([...(await bytesOf(log)).subarray(at.offset, at.offset + at.length)]).toEqual([...own]);
  });

  test("stored bytes never change", async (store) => {
    const log = await store.create(header("s1"), [line("a")]);
    let before = await bytesOf(log);
    for (let at = 0; at < 20; at++) {
      await log.append([line(`e${at}`), line(`f${at}`)], { durability: at % 2 ? "fsync" : "flush" });
      const after = await bytesOf(log);
      expect(Buffer.from(after.subarray(0, before.length)).equals(before)).toBe(true);
      expect(after.length > before.length).toBe(true);
      before = after;
    }
  });

  test("a view stays the same while the log grows", async (store) => {
    const log = await store.create(header("s1"), [line("a")]);
    const view = await log.load();
    const { size } = view;
    const before = Buffer.from(view.read(0, size));
    for (let at = 0; at < 50; at++) await log.append([line(`e${at}`, null, "x".repeat(1_000))]);
    expect(view.size).toBe(size);
    expect(before.equals(view.read(0, size))).toBe(true);
  });

  test("the lines of a batch are together and in order", async (store) => {
    const log = await store.create(header("s1"));
    const batch = Array.from({ length: 100 }, (_, at) => line(`e${at}`));
    await log.append(batch);
    expect((await linesOf(log)).slice(1)).toEqual(batch);
  });

  test("an append without lines writes nothing", async (store) => {
    const log = await store.create(header("s1"), [line("a")]);
    const { size } = await log.load();
    expect(await log.append([])).toEqual({ offset: size, length: 0, from: size, to: size });
    expect((await log.load()).size).toBe(size);
  });

  test("a line with a newline is refused, together with its batch", async (store) => {
    const log = await store.create(header("s1"));
    const { size } = await log.load();
    await expect(log.append([line("a"), `{"type":\n"custom"}`])).rejects.toMatchObject({
      code: "invalid-entry",
    });
    expect((await log.load()).size).toBe(size);
  });

  test("every character is read back unchanged", async (store) => {
    const log = await store.create(header("s1"));
    const texts = [
      "äöü",
      "日本語",
      "👩‍👩‍👧‍👦",
      "\u2028\u2029",
      "\u0000\u001f\u007f",
      "\ufeff",
      "\\n\\u0000",
      "𐀀\u{10ffff}",
    ];
    const lines = texts.map((text, at) => line(`e${at}`, null, text));
    await log.append(lines);
    expect((await linesOf(await store.open({ file: log.ref }, "read"))).slice(1)).toEqual(lines);
  });

  test("a line of 3 MiB is like any other", async (store) => {
    const log = await store.create(header("s1"), [line("a")]);
    const big = line("big", "a", "ß".repeat(1_500_000));
    await log.append([big, line("b", "big")]);
    expect((await linesOf(log)).slice(2)).toEqual([big, line("b", "big")]);
    expect((await log.readPath()).entries.map(({ id }) => id)).toEqual(["a", "big", "b"]);
  });

  test("acknowledged lines are there at the next opening, synced or not", async (store) => {
    const log = await store.create(header("s1"));
    for (const durability of ["flush", "fsync"] as const) {
      await log.append([line(durability)], { durability });
      const found = await linesOf(await store.open({ file: log.ref }, "read"));
      expect(found.at(-1)).toBe(line(durability));
    }
  });
}
