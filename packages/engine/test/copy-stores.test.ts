import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { copySession, diagnose, migrateStore, openStore, repairSession } from "@espalier/engine";
import {
  memoryStore,
  type SessionIssueKind,
  type SessionLog,
  type SessionStore,
} from "@espalier/session-tree";
import { FileLog, fileStore } from "@espalier/session-tree/node";
import { growEntries } from "@espalier/session-tree/testing";
import { type PrivateServer, serverPrograms, startPrivateServer } from "@espalier/store-postgres/testing";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";

/** Far more than they take: other tests run beside. */
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const folder = mkdtempSync(join(tmpdir(), "espalier-copies-"));
afterAll(() => rmSync(folder, { recursive: true }));

const hasServer = serverPrograms() !== undefined;
if (!hasServer)
  console.warn("There is no PostgreSQL server here: copies are tried on memory and files only.");
let server: PrivateServer | undefined;
beforeAll(async () => {
  if (!hasServer) return;
  server = await startPrivateServer();
  await migrateStore(server.url);
});
afterAll(() => server?.remove());

/** Old and new sessions that agents wrote; not part of the repository. */
const CORPUS = new URL("../../../../shared/corpus/pi/", import.meta.url).pathname;
if (!existsSync(CORPUS)) console.warn("There is no corpus here: only made-up sessions are copied.");

const HEADER = `{"type":"session","version":3,"id":"s1","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/garden"}`;
const lines = (tree: string): string[] => growEntries(tree).map((entry) => JSON.stringify(entry));
const SOUND = [HEADER, ...lines('u1 > a1 > u2 > a2 > k1(u2) > u3; a1 > u4 > l1(u4 "here")')];
/** As the first format has it: without ids. */
const FIRST = [HEADER, ...lines("u1 > a1 > u2 > a2")].map((line) =>
  line.replace('"version":3,', "").replace(/"id":"\w+","parentId":(null|"\w+"),/, ""),
);
const textOf = (all: readonly string[]) => `${all.join("\n")}\n`;
const note = (rest: string) => `{"type":"custom","customType":"t","timestamp":"t",${rest}}`;

let number = 0;
const freshPath = () => join(folder, `${number++}.jsonl`);
function written(bytes: string | Buffer): string {
  const path = freshPath();
  writeFileSync(path, bytes);
  return path;
}
const reading = (path: string): SessionLog => FileLog.open(path, "read");
const files = fileStore({ home: folder });

/** The stores that a copy passes through on its way from a file to a file. */
const WAYS: {
  name: string;
  open(): Promise<SessionStore & { close?(): Promise<void> }>;
  isThere: boolean;
}[] = [
  { name: "memory", open: async () => memoryStore(), isThere: true },
  { name: "files", open: async () => fileStore({ home: mkdtempSync(join(folder, "home-")) }), isThere: true },
  {
    name: "PostgreSQL",
    open: () => openStore(`${server!.url}?namespace=copies-${number++}`),
    isThere: hasServer,
  },
];

/** Something that `doctor` finds, one example for each, and whether a copy is made all the same. */
const FINDINGS: Record<Exclude<SessionIssueKind, "large-file">, { bytes: string | Buffer; isFine?: true }> = {
  "torn-tail": { bytes: `${textOf(SOUND)}{"type":"cus` },
  "unterminated-tail": { bytes: textOf(SOUND).slice(0, -1) },
  corrupt: { bytes: Buffer.concat([Buffer.from(textOf(SOUND)), Buffer.of(0x7b, 0xff, 0x0a)]) },
  salvaged: { bytes: textOf([...SOUND, `{"type":"cus${SOUND[1]!.replace('"u1"', '"u9"')}`]) },
  glued: { bytes: textOf([...SOUND, note('"id":"g1","parentId":"u1"') + note('"id":"g2","parentId":"g1"')]) },
  "duplicate-id": { bytes: textOf([...SOUND, note('"id":"u1","parentId":null')]) },
  "identical-duplicate": { bytes: textOf([...SOUND, SOUND.at(-1)!]) },
  orphan: { bytes: textOf([...SOUND, note('"id":"x","parentId":"nobody"')]) },
  "bad-reference": {
    bytes: textOf([
      ...SOUND,
      '{"type":"label","id":"l9","parentId":"u1","timestamp":"t","targetId":"nobody","label":"x"}',
    ]),
  },
  "invalid-entry": {
    bytes: textOf([...SOUND, '{"type":"compaction","id":"k9","parentId":"u1","timestamp":"t"}']),
  },
  "duplicate-header": { bytes: textOf([...SOUND, HEADER]) },
  "no-header": { bytes: textOf(SOUND.slice(1)) },
  version: { bytes: textOf(SOUND).replace('"version":3', '"version":4') },
  "blank-beginning": { bytes: `\n${textOf(SOUND)}` },
  "large-line": {
    bytes: textOf([...SOUND, note(`"id":"big","parentId":"u1","data":"${"x".repeat(17 * 1024 * 1024)}"`)]),
    isFine: true,
  },
};

/** Copies a file into a store and out again, and looks at what came out. */
async function throughStore(store: SessionStore, path: string): Promise<void> {
  const there = await copySession(reading(path), store);
  const out = freshPath();
  await copySession(await store.open({ file: there.file }, "read"), files, out);
  expect(Buffer.compare(readFileSync(out), readFileSync(path))).toBe(0);
  expect((await diagnose(await store.open({ file: there.file }, "read"))).issues).toEqual(
    (await diagnose(reading(path))).issues,
  );
  await store.delete({ file: there.file });
  rmSync(out);
}

/** Refused, nothing written, and the cure heals it; a newer format has no cure here. */
async function refused(store: SessionStore, path: string): Promise<void> {
  const isNewer = (reading(path).header?.version ?? 0) > 3;
  await expect(copySession(reading(path), store)).rejects.toMatchObject({
    code: "damaged",
    message: expect.stringContaining(
      isNewer ? "copy it with a newer version" : `espalier doctor ${path} --repair`,
    ),
  });
  for await (const listed of store.list()) expect(listed).toBeUndefined();
  if (isNewer) return;
  const repaired = freshPath();
  await repairSession(reading(path), repaired);
  await throughStore(store, repaired);
}

/** What may be done to a line: the first few change nothing that a reader minds. */
const CHANGES = {
  "reorder keys": (line: string) => line.replace(/^\{(.*?"timestamp":"[^"]*"),(.*)\}$/, "{$2,$1}"),
  escape: (line: string) => line.replace('"timestamp":', '"\\u0078":"\\u0000\\ud800","timestamp":'),
  "blank below": (line: string) => `${line}\n \t`,
  "unknown below": (line: string, at: number) => `${line}\n${UNKNOWN.replace("?", `n${at}`)}`,
  repeat: (line: string) => `${line}\n${line}`,
  drop: () => "",
  cut: (line: string, at: number) => line.slice(0, at % (line.length + 1)),
  "no text": (line: string) => line.replace("{", "{\u00ff"),
  mark: (line: string) => `\ufeff${line}`,
} as const;
const HARMLESS = ["reorder keys", "escape", "blank below", "unknown below"] as const;
const UNKNOWN = '{"type":"unheard_of","id":"?","parentId":null,"timestamp":"t","x":1.0e2}';

/** One of several texts, the first one most of the time. */
const mostly = (usual: string, ...others: string[]) =>
  fc.oneof(
    { weight: 5, arbitrary: fc.constant(usual) },
    { weight: 1, arbitrary: fc.constantFrom(...others) },
  );
const changesAmong = (...names: (keyof typeof CHANGES)[]) =>
  fc.array(fc.record({ does: fc.constantFrom(...names), line: fc.nat(), place: fc.nat() }), { maxLength: 3 });

/** The bytes of a session as some program may have written it, sound or not. */
const sessions: fc.Arbitrary<Buffer> = fc
  .record({
    version: fc.oneof(
      { weight: 5, arbitrary: fc.constantFrom("", '"version":2,', '"version":3,', '"version":3.0,') },
      fc.constant('"version":4,'),
    ),
    mark: mostly("", "\ufeff"),
    before: mostly("", "\n", " \t\r\n", "{torn\n"),
    end: mostly("\n", "\n\n", "\n\r\n", "", "\n  "),
    lineEnd: fc.constantFrom("\n", "\r\n", "\n\n", " \n"),
    spaced: fc.boolean(),
    changes: fc.oneof(
      { weight: 3, arbitrary: changesAmong(...HARMLESS) },
      changesAmong(...(Object.keys(CHANGES) as (keyof typeof CHANGES)[])),
    ),
  })
  .map(({ version, mark, before, end, lineEnd, spaced, changes }) => {
    let all = (version === "" ? FIRST : SOUND).map((line) => line.replace('"version":3,', version));
    if (spaced) all = all.map((line) => JSON.stringify(JSON.parse(line), null, 1).replaceAll(/\n */g, " "));
    for (const { does, line, place } of changes) {
      const at = 1 + (line % (all.length - 1));
      all[at] = CHANGES[does](all[at]!, place);
    }
    const text = `${mark}${before}${all.join(lineEnd)}${end}`;
    // One byte that is no text, where a character of Latin-1 stands for it.
    return Buffer.from(
      text.split("\u00ff").flatMap((part, at) => [...(at > 0 ? [0xff] : []), ...Buffer.from(part)]),
    );
  });

describe.each(WAYS)("through $name", ({ open, isThere }) => {
  let store: Awaited<ReturnType<(typeof WAYS)[number]["open"]>>;
  beforeAll(async () => {
    if (isThere) store = await open();
  });
  afterAll(() => store?.close?.());

  test.skipIf(!isThere).each(Object.entries(FINDINGS))(
    "what doctor calls %s",
    async (kind, { bytes, isFine }) => {
      const path = written(bytes);
      const { issues } = await diagnose(reading(path));
      expect(issues.map((issue) => issue.kind)).toContain(kind);
      await (isFine ? throughStore(store, path) : refused(store, path));
    },
  );

  test.skipIf(!isThere)("a session has the same bytes exactly if doctor finds no damage", async () => {
    const seen = { sound: 0, old: 0, unsound: 0 };
    await fc.assert(
      fc.asyncProperty(sessions, async (bytes) => {
        const path = written(bytes);
        const { issues } = await diagnose(reading(path));
        const isOld = reading(path).upgraded !== undefined;
        seen[issues.length > 0 ? "unsound" : isOld ? "old" : "sound"] += 1;
        await (issues.length === 0 ? throughStore(store, path) : refused(store, path));
        rmSync(path);
      }),
      { numRuns: 60 },
    );
    expect(Math.min(seen.sound, seen.old, seen.unsound)).toBeGreaterThan(2);
  });

  test.skipIf(!isThere || !existsSync(CORPUS))(
    "sessions of agents in any format have the same bytes",
    async () => {
      for (const name of readdirSync(CORPUS)) {
        const path = join(CORPUS, name);
        const { issues } = await diagnose(reading(path));
        await (issues.length === 0 ? throughStore(store, path) : refused(store, path));
      }
    },
  );
});

test("from any store to any other, sessions of every format have the same bytes", async () => {
  const ways = WAYS.filter(({ isThere }) => isThere);
  // Of the last also another namespace.
  const stores = await Promise.all([...ways, ways.at(-1)!].map(({ open }) => open()));
  for (const [format, lines] of [
    FIRST,
    SOUND.map((line) => line.replace('"version":3', '"version":2')),
    SOUND,
  ].entries()) {
    const bytes = Buffer.from(textOf(lines.map((line) => line.replace('"id":"s1"', `"id":"s${format}"`))));
    const path = written(bytes);
    for (const from of stores)
      for (const to of stores) {
        if (from === to) continue;
        const there = await copySession(reading(path), from);
        const further = await copySession(await from.open({ file: there.file }, "read"), to);
        const out = freshPath();
        await copySession(await to.open({ file: further.file }, "read"), files, out);
        expect(Buffer.compare(readFileSync(out), bytes)).toBe(0);
        await from.delete({ file: there.file });
        await to.delete({ file: further.file });
      }
  }
  for (const store of stores) await store.close?.();
});
