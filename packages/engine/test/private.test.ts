import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, relative, sep } from "node:path";
import {
  createSession,
  deleteSession,
  diagnose,
  listSessions,
  openSession,
  openTrust,
  othersMayRead,
  repairSession,
  searchSessions,
} from "@espalier/engine";
import { memoryLog, SessionTree } from "@espalier/session-tree";
import { FileLog, projectKey } from "@espalier/session-tree/node";
import { afterAll, describe, expect, test } from "vitest";

const work = mkdtempSync(join(tmpdir(), "espalier-"));
process.env["PI_CODING_AGENT_DIR"] = join(work, "pi");
afterAll(() => rmSync(work, { recursive: true }));

const HEADER = `{"type":"session","version":3,"id":"s1","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/garden"}`;
const ENTRY = `{"type":"custom","id":"e1","parentId":null,"timestamp":"2026-01-01T00:00:01.000Z","customType":"test"}`;

function everythingBelow(folder: string): string[] {
  return [folder, ...readdirSync(folder, { recursive: true }).map((name) => join(folder, String(name)))];
}

test("no written file can be read by other users, under any umask", async () => {
  for (const mask of [0, 0o002, 0o022, 0o077]) {
    const home = join(work, `mask${mask}`);
    const before = process.umask(mask);
    try {
      const session = await createSession({ home });
      const [entry] = await session.appendMessages([{ role: "user", content: "What grows here?" }]);
      await session.label(entry!.id, "x");
      const fork = await session.fork(entry!.id);
      await session.fork(entry!.id, { out: join(home, "elsewhere", "fork.jsonl") });
      await repairSession(FileLog.open(fork.file, "read"), join(home, "repaired.jsonl"));
      mkdirSync(join(work, "project"), { recursive: true });
      await openTrust(home).trust(join(work, "project"));
      // While it is open, so that the lease is there.
      const paths = everythingBelow(home);
      expect(paths.some((path) => path.endsWith(".lease"))).toBe(true);
      for (const path of paths) {
        const facts = statSync(path);
        expect(facts.mode & 0o777, path).toBe(facts.isDirectory() ? 0o700 : 0o600);
      }
      await session.close();
    } finally {
      process.umask(before);
    }
  }
});

test("a store's file with a wider mode is made private when opened for writing; a file elsewhere is only reported", async () => {
  const home = join(work, "loose");
  const session = await createSession({ home });
  await session.close();
  const elsewhere = join(home, "mine.jsonl");
  writeFileSync(elsewhere, `${HEADER}\n${ENTRY}\n`);
  const rights = (file: string) => statSync(file).mode & 0o777;
  for (const file of [session.file, elsewhere]) chmodSync(file, 0o664);
  await (await openSession({ file: session.file }, { home, mode: "read" })).close();
  expect(rights(session.file)).toBe(0o664);
  for (const file of [session.file, elsewhere]) await (await openSession({ file }, { home })).close();
  expect(rights(session.file)).toBe(0o600);
  expect(rights(elsewhere)).toBe(0o664);
  expect(othersMayRead(session.file)).toBe(false);
  // Its folder lets nobody in.
  expect(othersMayRead(elsewhere)).toBe(false);
  chmodSync(home, 0o755);
  expect(othersMayRead(elsewhere)).toBe(true);
  expect(othersMayRead(home)).toBe(false);
});

test("no id or name becomes a path outside of the store", async () => {
  const home = join(work, "names");
  for (const id of [
    "../evil",
    "..",
    "/etc/evil",
    "a/b",
    "a\\b",
    "nul\0",
    "",
    ".hidden",
    "x".repeat(300),
    "sp ace",
    "C:",
  ])
    await expect(createSession({ home, id }), JSON.stringify(id)).rejects.toMatchObject({
      code: "invalid-entry",
    });
  const session = await createSession({ home, cwd: "/../../etc\0/..;rm -rf" });
  expect(session.file.startsWith(join(home, "sessions") + sep)).toBe(true);
  await session.rename("../../evil");
  await session.close();
  for (const ref of ["nobody", "nul\0byte", "../nobody", "/nobody/at\0all.jsonl"])
    await expect(openSession({ file: ref }, { home }), JSON.stringify(ref)).rejects.toMatchObject({
      code: expect.stringMatching(/^(not-found|unreadable)$/),
    });
});

test("a link is not a session: it is not listed, opened or removed", async () => {
  const home = join(work, "links");
  const folder = join(home, "sessions", "project");
  mkdirSync(folder, { recursive: true });
  const outside = join(work, "outside.jsonl");
  writeFileSync(outside, `${HEADER}\n${ENTRY}\n`);
  const link = join(folder, "2026_link.jsonl");
  symlinkSync(outside, link);
  const listed = [];
  for await (const session of listSessions({ home, folder })) listed.push(session);
  expect(listed).toEqual([]);
  for (const mode of ["read", "write"] as const)
    await expect(openSession({ file: link }, { home, mode })).rejects.toMatchObject({ code: "not-a-file" });
  await expect(deleteSession({ file: link }, { home })).rejects.toMatchObject({ code: "not-a-file" });
  expect(statSync(outside).size).toBeGreaterThan(0);
});

describe("a linked folder below the root", () => {
  const home = join(work, "linked-folders");
  const elsewhere = join(work, "elsewhere");
  const cwd = join(work, "somewhere");
  const theirs = join(elsewhere, "2026-01-01T00-00-00-000Z_theirs.jsonl");
  const link = join(home, "sessions", projectKey(cwd));
  mkdirSync(join(home, "sessions"), { recursive: true });
  mkdirSync(elsewhere);
  writeFileSync(theirs, `${HEADER.replace("s1", "theirs")}\n${ENTRY}\n`);
  symlinkSync(elsewhere, link);
  const through = join(link, basename(theirs));
  const before = readFileSync(theirs);
  const follow = { code: "not-a-file", message: expect.stringContaining(link) };

  test("is not listed or searched, and no id leads into it", async () => {
    expect(await idsIn(listSessions({ home }))).toEqual([]);
    expect(await idsIn(listSessions({ home, folder: join(home, "sessions") }))).toEqual([]);
    expect(await idsIn(searchSessions("custom", { home }))).toEqual([]);
    await expect(openSession("theirs", { home })).rejects.toMatchObject({ code: "not-found" });
    await expect(deleteSession("theirs", { home })).rejects.toMatchObject({ code: "not-found" });
    expect(existsSync(theirs)).toBe(true);
  });

  test("is not read, written or deleted through any form of path", async () => {
    for (const ref of [through, relative(process.cwd(), through)]) {
      for (const mode of ["read", "write"] as const)
        await expect(openSession({ file: ref }, { home, mode })).rejects.toMatchObject(follow);
      await expect(deleteSession({ file: ref }, { home })).rejects.toMatchObject(follow);
    }
    expect(readFileSync(theirs)).toEqual(before);
  });

  test("gets no new session", async () => {
    await expect(createSession({ home, cwd })).rejects.toMatchObject(follow);
    await expect(createSession({ home, file: join(link, "new.jsonl") })).rejects.toMatchObject(follow);
    expect(readdirSync(elsewhere)).toEqual([basename(theirs)]);
  });

  test("can be read and written by its real path", async () => {
    const session = await openSession({ file: theirs }, { home });
    await session.label("e1", "seen");
    await session.close();
  });

  test("is every linked folder below the home, also `sessions`", async () => {
    const other = join(work, "linked-sessions");
    mkdirSync(other);
    symlinkSync(join(home, "sessions"), join(other, "sessions"));
    await expect(createSession({ home: other, cwd })).rejects.toMatchObject({ code: "not-a-file" });
    const told: string[] = [];
    const onSkipped = (place: string) => told.push(place);
    expect(await idsIn(listSessions({ home: other, onSkipped }))).toEqual([]);
    expect(told).toEqual([join(other, "sessions")]);
  });
});

test("the root may be a link: the home, and a folder that is named", async () => {
  const home = join(work, "linked-home");
  const real = join(work, "real-home");
  mkdirSync(real);
  symlinkSync(real, home);
  const session = await createSession({ home });
  await session.appendMessages([{ role: "user", content: "needle" }]);
  await session.close();
  expect(existsSync(session.file.replace(home, real))).toBe(true);
  const folder = join(work, "named");
  symlinkSync(join(real, "sessions"), folder);
  for (const place of [{ home }, { home, folder }]) {
    expect(await idsIn(listSessions(place))).toEqual([session.id]);
    expect(await idsIn(searchSessions("needle", place))).toEqual([session.id]);
  }
  await (await openSession(session.id, { home })).close();
  expect(await deleteSession(session.id, { home })).toContain(session.file);
  expect(await idsIn(listSessions({ home: real }))).toEqual([]);
});

test("a home that cannot be written is refused at once, with a code", async () => {
  const file = join(work, "a-file");
  writeFileSync(file, "");
  // Names that the system refuses, also to its superuser.
  const homes = [
    file,
    join(file, "below"),
    ...(process.platform === "linux" ? ["/proc/nowhere/at/all"] : []),
  ];
  for (const home of homes)
    await expect(createSession({ home }), home).rejects.toMatchObject({ code: "write-failed" });
});

test("a file in place of a listed folder is reported as a file", async () => {
  const folder = join(work, "no-folder");
  writeFileSync(folder, "");
  for (const found of [listSessions({ home: work, folder }), searchSessions("x", { home: work, folder })])
    await expect(idsIn(found)).rejects.toMatchObject({
      code: "unreadable",
      message: `${folder} is not a folder; name the folder it is in.`,
    });
});

async function idsIn(found: AsyncIterable<{ id?: string; sessionId?: string }>): Promise<unknown[]> {
  const ids: unknown[] = [];
  for await (const { id, sessionId } of found) ids.push(id ?? sessionId);
  return ids;
}

test("an own key __proto__ changes no object, and cannot be written", async () => {
  const line = ENTRY.replace('"customType"', '"__proto__":{"polluted":true},"customType"');
  const session = await SessionTree.open(memoryLog(Buffer.from(`${HEADER}\n${line}\n`)));
  expect(session.tree.getEntry("e1")).toMatchObject({ customType: "test" });
  expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
  const hostile = JSON.parse(`{"type":"custom","customType":"test","data":{"__proto__":{"polluted":true}}}`);
  await expect(session.append(hostile)).rejects.toMatchObject({ code: "invalid-entry" });
  expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
});

test("a hundred thousand brackets are read and reported without harm; such an entry is never written", async () => {
  const deep = `${"[".repeat(100_000)}${"]".repeat(100_000)}`;
  const line = ENTRY.replace('"customType":"test"', `"customType":"test","data":${deep}`);
  const log = memoryLog(Buffer.from(`${HEADER}\n${line}\n`));
  const session = await SessionTree.open(log);
  expect(session.leafId).toBe("e1");
  expect(session.context.messages).toEqual([]);
  expect((await diagnose(log)).entries).toBe(1);
  const data = JSON.parse(deep);
  await expect(session.append({ type: "custom", customType: "test", data } as never)).rejects.toMatchObject({
    code: "invalid-entry",
  });
  const broken = `${HEADER}\n${ENTRY}\n${"[".repeat(100_000)}\n${'{"a":'.repeat(100_000)}\n`;
  const issues = (await diagnose(memoryLog(Buffer.from(broken)))).issues;
  expect(issues.map(({ kind }) => kind)).toEqual(["corrupt", "corrupt"]);
});

test("a value that throws while it is read is refused with a code, and the session continues", async () => {
  const session = await createSession({ home: join(work, "getters") });
  const throwing = (key: string, thrown: unknown, beside: object = {}) =>
    Object.defineProperty({ ...beside }, key, {
      enumerable: true,
      get() {
        throw thrown;
      },
    }) as never;
  const custom = { type: "custom", customType: "test" };
  for (const thrown of [new Error("boo"), "boo", undefined]) {
    for (const draft of [
      throwing("type", thrown),
      throwing("id", thrown, custom),
      { ...custom, data: throwing("deep", thrown) } as never,
    ]) {
      const told = {
        code: "invalid-entry",
        message: expect.stringMatching(/cannot be read: .*; give it plain/),
      };
      await expect(session.append(draft)).rejects.toMatchObject(told);
      await expect(session.append(draft)).rejects.toMatchObject(told);
    }
    for (const message of [
      throwing("role", thrown),
      throwing("content", thrown, { role: "user" }),
      { role: "user", content: [throwing("text", thrown, { type: "text" })] } as never,
    ])
      await expect(session.appendMessages([message])).rejects.toMatchObject({
        code: expect.stringMatching(/^(bad-input|invalid-entry)$/),
      });
  }
  await session.appendMessages([{ role: "user", content: "And then?" }]);
  expect(session.tree.length).toBe(1);
  await session.close();
});

test("a value that is too long is refused by name, and the session continues", async () => {
  const session = await createSession({ home: join(work, "long") });
  const data = "x".repeat(17 * 1024 * 1024);
  await expect(session.append({ type: "custom", customType: "test", data } as never)).rejects.toMatchObject({
    code: "invalid-entry",
    cause: { code: "line-too-long" },
  });
  await session.appendMessages([{ role: "user", content: "And then?" }]);
  await session.close();
});
