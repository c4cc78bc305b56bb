import type { EspalierError } from "@espalier/jsonl-stream";
import { custom, label } from "../../entry/kinds.ts";
import { SessionTree } from "../../store/session-tree.ts";
import { bytesOf, header, line, linesOf, type Trial } from "./store-under-test.ts";

const note = () => custom.of({ customType: "test" });

/** Several writers of one session. */
export function writersConformance({ test, expect }: Trial): void {
  test("a writer reads the lines that another writer appended", async (store) => {
    const one = await store.create(header("s1"));
    const two = await store.open({ file: one.ref }, "write");
    const { size } = await two.load();
    const { to } = await one.append([line("a"), line("b")]);
    expect((await two.load()).size).toBe(size);
    expect(await two.takeIn()).toEqual({ from: size, to });
    expect((await linesOf(two)).slice(1)).toEqual([line("a"), line("b")]);
    expect(await two.takeIn()).toBe(null);
  });

  test("an append reads and reports the lines of other writers before it", async (store) => {
    const one = await store.create(header("s1"));
    const two = await store.open({ file: one.ref }, "write");
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

  test("all writers see the same order, and no line is lost or torn", async (store) => {
    const first = await store.create(header("s1"));
    const writers = [
      first,
      await store.open({ file: first.ref }, "write"),
      await store.open({ file: first.ref }, "write"),
    ];
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

  test("appends that were not awaited keep their order", async (store) => {
    const log = await store.create(header("s1"));
    const lines = Array.from({ length: 50 }, (_, at) => line(`e${at}`));
    await Promise.all(lines.map((each) => log.append([each])));
    expect((await linesOf(log)).slice(1)).toEqual(lines);
  });

  test("an append with ifUnchanged is refused when the log has grown", async (store) => {
    const one = await store.create(header("s1"));
    const two = await store.open("s1", "write");
    await one.append([line("a")], { ifUnchanged: true });
    await expect(two.append([line("b")], { ifUnchanged: true })).rejects.toMatchObject({ code: "moved" });
    expect((await linesOf(await store.open("s1", "read"))).slice(1)).toEqual([line("a")]);
    const seen = await two.takeIn();
    expect(seen!.to > seen!.from).toBe(true);
    expect((await linesOf(two)).slice(1)).toEqual([line("a")]);
    await two.append([line("b")], { ifUnchanged: true });
    await two.append([line("c")], { ifUnchanged: true });
    expect((await linesOf(await store.open("s1", "read"))).slice(1)).toEqual([
      line("a"),
      line("b"),
      line("c"),
    ]);
  });

  test("of writers that append at once with one ifLeaf, exactly one succeeds, so there is one branch", async (store) => {
    await store.create(header("s1"), [line("a")]);
    const writers = await Promise.all(
      [1, 2, 3].map(async () => SessionTree.open(await store.open("s1", "write"))),
    );
    const first = await Promise.allSettled(writers.map((writer) => writer.append(note(), { ifLeaf: "a" })));
    expect(first.filter(({ status }) => status === "fulfilled").length).toBe(1);
    for (const end of first)
      if (end.status === "rejected") {
        expect(end.reason).toMatchObject({ code: "moved" });
        expect(end.reason.leafId === "a").toBe(false);
      }
    // Each retries from the current leaf until it has appended five entries.
    await Promise.all(
      [1, 2, 3].map(async () => {
        for (let said = 0; said < 5; ) {
          const session = await SessionTree.open(await store.open("s1", "write"));
          const moved = await session.append(note(), { ifLeaf: session.leafId }).then(
            () => false,
            ({ code }: EspalierError) => code === "moved" || Promise.reject(code),
          );
          if (!moved) said++;
          await session.close();
        }
      }),
    );
    const session = await SessionTree.open(await store.open("s1", "read"));
    await session.load();
    expect(session.getBranch().length).toBe(session.tree.length);
    expect(session.tree.length).toBe(17);
  });

  test("a label of another writer does not move the leaf, so an append with ifLeaf succeeds", async (store) => {
    const one = await SessionTree.open(await store.create(header("s1"), [line("a")]));
    const two = await SessionTree.open(await store.open("s1", "write"));
    const changes: string[] = [];
    two.subscribe(({ type }) => changes.push(type));
    await one.append(label.of({ targetId: "a", label: "here" }));
    const [written] = await two.append(note(), { ifLeaf: "a" });
    expect(written!.parentId).toBe("a");
    expect(changes).toEqual(["foreign", "appended"]);
    await one.append(note());
    await expect(two.append(note(), { ifLeaf: written!.id })).rejects.toMatchObject({ code: "moved" });
    // The leaf of this session is another one.
    await expect(two.append(note(), { ifLeaf: "a" })).rejects.toMatchObject({ code: "moved" });
    await expect(two.append(note(), { ifLeaf: null })).rejects.toMatchObject({ code: "moved" });
    expect((await two.load()).length).toBe(4);
  });

  test("a log opened for reading sees new lines", async (store) => {
    const writer = await store.create(header("s1"));
    const reader = await store.open({ file: writer.ref }, "read");
    const { offset, to } = await writer.append([line("a")]);
    expect(await reader.takeIn()).toEqual({ from: offset, to });
    expect((await linesOf(reader)).at(-1)).toBe(line("a"));
  });
}
