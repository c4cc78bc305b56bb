import { bytesOf, header, line, linesOf, type Trial } from "./store-under-test.ts";

/** Several writers of one session. */
export function writersConformance({ test, expect }: Trial): void {
  test("a writer takes in what another one appended", async (store) => {
    const one = await store.create(header("s1"));
    const two = await store.open(one.ref, "write");
    const { size } = await two.load();
    const { to } = await one.append([line("a"), line("b")]);
    expect((await two.load()).size).toBe(size);
    expect(await two.takeIn()).toEqual({ from: size, to });
    expect((await linesOf(two)).slice(1)).toEqual([line("a"), line("b")]);
    expect(await two.takeIn()).toBe(null);
  });

  test("an append takes in what came before it, and says so", async (store) => {
    const one = await store.create(header("s1"));
    const two = await store.open(one.ref, "write");
    const foreign = await one.append([line("a")]);
    const own = await two.append([line("b")]);
    expect(own).toEqual({
      offset: foreign.to,
      length: foreign.length,
      from: foreign.offset,
      to: foreign.to + foreign.length,
    });
    expect((await linesOf(two)).slice(1)).toEqual([line("a"), line("b")]);
  });

  test("all see the same order, and nothing is lost or torn", async (store) => {
    const first = await store.create(header("s1"));
    const writers = [first, await store.open(first.ref, "write"), await store.open(first.ref, "write")];
    const wanted: string[] = [];
    await Promise.all(
      writers.map(async (log, writer) => {
        for (let at = 0; at < 60; at++) {
          const lines = [line(`w${writer}-${at}`), line(`v${writer}-${at}`, null, "x".repeat(at * 37))];
          wanted.push(...lines);
          await log.append(lines);
        }
      }),
    );
    for (const log of writers) await log.takeIn();
    const [one, two, three] = await Promise.all(writers.map(bytesOf));
    expect(Buffer.compare(one!, two!)).toBe(0);
    expect(Buffer.compare(one!, three!)).toBe(0);
    const found = (await linesOf(first)).slice(1);
    expect(found.toSorted()).toEqual(wanted.toSorted());
    for (let writer = 0; writer < 3; writer++) {
      const own = found.filter((each) => each.includes(`"w${writer}-`));
      expect(own).toEqual(Array.from({ length: 60 }, (_, at) => line(`w${writer}-${at}`)));
    }
  });

  test("appends that were not waited for keep their order", async (store) => {
    const log = await store.create(header("s1"));
    const lines = Array.from({ length: 50 }, (_, at) => line(`e${at}`));
    await Promise.all(lines.map((each) => log.append([each])));
    expect((await linesOf(log)).slice(1)).toEqual(lines);
  });

  test("who only reads sees a log grow", async (store) => {
    const writer = await store.create(header("s1"));
    const reader = await store.open(writer.ref, "read");
    const { offset, to } = await writer.append([line("a")]);
    expect(await reader.takeIn()).toEqual({ from: offset, to });
    expect((await linesOf(reader)).at(-1)).toBe(line("a"));
  });
}
