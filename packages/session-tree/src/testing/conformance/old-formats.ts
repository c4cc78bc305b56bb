import { custom } from "../../entry/kinds.ts";
import { ForkLines, forkHeader, planFork } from "../../store/fork.ts";
import { memoryLog } from "../../store/memory-store.ts";
import { SessionTree } from "../../store/session-tree.ts";
import type { SessionLog, SessionStore } from "../../store/store.ts";
import { bytesOf, codeOf, line, type Trial } from "./store-under-test.ts";

const FIELDS = '"id":"old","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/garden"';
const said = (role: string, text: string, place = "") =>
  `{"type":"message",${place}"timestamp":"2026-01-01T00:00:01.000Z","message":{"role":"${role}", "content":"${text}","timestamp":1}}`;
const at = (id: string, parentId: string | null) => `"id":"${id}","parentId":${JSON.stringify(parentId)},`;

/** The same session in both old formats, with spaces, a blank line and a carriage return. */
const OLD_FORMATS = [
  {
    version: 1,
    header: `{ "type":"session",${FIELDS} }`,
    lines: [
      said("user", "one"),
      "",
      `${said("user", "two")}\r`,
      '{"type":"compaction","timestamp":"t","summary":"so far","firstKeptEntryIndex":2,"tokensBefore":9}',
      said("hookMessage", "three"),
    ],
  },
  {
    version: 2,
    header: `{"version":2, "type":"session",${FIELDS}}`,
    lines: [
      said("user", "one", at("a", null)),
      "",
      `${said("user", "two", at("b", "a"))}\r`,
      `{"type":"compaction",${at("c", "b")}"timestamp":"t","summary":"so far","firstKeptEntryId":"b","tokensBefore":9}`,
      said("hookMessage", "three", at("d", "c")),
    ],
  },
] as const;

const next = custom.of({ customType: "test", data: "next" });

async function standsIn(log: SessionLog): Promise<string> {
  const read = await bytesOf(log);
  const { original } = log.upgraded ?? {};
  return new TextDecoder().decode(original ? original.read(0, original.size) : read);
}

/** Sessions of formats 1 and 2 are read as the current format, stored unchanged, and rewritten by the first append. */
export function oldFormatConformance({ test, expect }: Trial): void {
  for (const { version, header, lines } of OLD_FORMATS) {
    const whole = `${[header, ...lines].join("\n")}\n`;
    const of = (name: string) => `${name} (${version})`;
    const make = (store: SessionStore) => store.create(header, lines);
    const opened = async (store: SessionStore, ref: string, mode: "read" | "write" = "read") => {
      const session = await SessionTree.open(await store.open({ file: ref }, mode));
      await session.load();
      return session;
    };

    test(of("an old format is read as the current one and stays unchanged in the store"), async (store) => {
      const { ref } = await make(store);
      const log = await store.open({ file: ref }, "read");
      const wanted = await SessionTree.open(memoryLog(new TextEncoder().encode(whole)));
      expect(await log.readPath()).toMatchObject({ leafId: wanted.leafId, entries: wanted.window.entries });
      for (const { id } of wanted.getBranch()) expect((await log.readPath(id)).leafId).toBe(id);
      expect(await standsIn(log)).toBe(whole);
      expect(log.upgraded?.from).toBe(version);
      expect(log.header?.version).toBe(version);
      const session = await SessionTree.open(log);
      expect(session.getBranch()).toEqual(wanted.getBranch());
      expect(session.context).toEqual(wanted.context);
      expect(session.tree.issues).toEqual([]);
      await session.refresh();
      const size = (await log.load()).size;
      expect(await (await store.open({ file: ref }, "write")).append([])).toEqual({
        offset: size,
        length: 0,
        from: size,
        to: size,
      });
      expect(await standsIn(await store.open({ file: ref }, "read"))).toBe(whole);
    });

    test(of("a list shows an old format like any other"), async (store) => {
      const { ref } = await make(store);
      for await (const listing of store.list())
        expect(listing).toMatchObject({
          id: "old",
          ref,
          firstMessage: "one",
          updatedAt: "2026-01-01T00:00:01.000Z",
          lastCompaction: "t",
          bytes: new TextEncoder().encode(whole).length,
        });
    });

    test(of("the first append rewrites an old format and keeps the original"), async (store) => {
      const { ref } = await make(store);
      const session = await opened(store, ref, "write");
      const { size } = session.tree.view;
      const before = Buffer.from(session.tree.view.read(0, size));
      const context = session.context;
      const [entry] = await session.append(next);
      await session.append(next);
      expect(session.log.upgraded).toBe(undefined);
      expect(before.equals((await bytesOf(session.log)).subarray(0, size))).toBe(true);
      const again = await opened(store, ref);
      expect(again.header?.version).toBe(3);
      expect(again.log.upgraded).toBe(undefined);
      expect(again.leafId).toBe(session.leafId);
      expect(again.getBranch()).toEqual(session.getBranch());
      expect(again.getBranch().at(-2)?.id).toBe(entry!.id);
      expect(again.context.messages).toEqual(context.messages);
      expect(Buffer.compare(await bytesOf(again.log), await bytesOf(session.log))).toBe(0);
      const original = await store.open({ file: `${ref}.v${version}` }, "read");
      expect(await standsIn(original)).toBe(whole);
      const listed: string[] = [];
      for await (const listing of store.list()) listed.push(listing.ref);
      expect(listed).toEqual([ref]);
      for (const log of [session.log, again.log, original]) await log.close();
      expect(await store.delete({ file: ref })).toEqual([ref, `${ref}.v${version}`]);
      await expect(store.open({ file: `${ref}.v${version}` }, "read")).rejects.toMatchObject({
        code: "not-found",
      });
    });

    test(of("a refused line leaves an old format unchanged"), async (store) => {
      const { ref } = await make(store);
      const log = await store.open({ file: ref }, "write");
      await expect(log.append(['{"type":\n"custom"}'])).rejects.toMatchObject({ code: "invalid-entry" });
      const reader = await store.open({ file: ref }, "read");
      await expect(reader.append([line("x")])).rejects.toMatchObject({ code: "read-only" });
      expect(await standsIn(await store.open({ file: ref }, "read"))).toBe(whole);
    });

    test(
      of("a writer of an old format gets an error when another writer rewrites it, and nothing is lost"),
      async (store) => {
        const { ref } = await make(store);
        const [one, other, unread] = [
          await opened(store, ref, "write"),
          await opened(store, ref, "write"),
          await store.open({ file: ref }, "write"),
        ];
        await one.append(next);
        expect(await codeOf(other.append(next))).toBe("changed");
        expect(await codeOf(other.refresh())).toBe("changed");
        expect(await codeOf(unread.append([line("x")]))).toBe("changed");
        const again = await opened(store, ref, "write");
        await again.append(next);
        expect(again.getBranch().map(({ type }) => type)).toEqual([
          ...["message", "message", "compaction", "message", "custom", "custom"],
        ]);
        expect(await standsIn(await store.open({ file: `${ref}.v${version}` }, "read"))).toBe(whole);
      },
    );

    test(of("a fork of an old format is current and leaves the original unchanged"), async (store) => {
      const { ref } = await make(store);
      const session = await opened(store, ref);
      const leafId = session.leafId!;
      const log = await store.create(
        forkHeader(session.header!, ref, leafId, "2026-01-02T00:00:00.000Z"),
        new ForkLines(session.tree, planFork(session.tree, leafId)),
      );
      const fork = await SessionTree.open(log);
      await fork.load();
      expect(fork.header?.version).toBe(3);
      expect(fork.getBranch()).toEqual(session.getBranch());
      expect(fork.context).toEqual(session.context);
      expect(await standsIn(await store.open({ file: ref }, "read"))).toBe(whole);
    });
  }
}
