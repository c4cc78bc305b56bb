import {
  appendFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import type { EspalierError } from "@espalier/jsonl-stream";
import { type FileCalls, nodeFileCalls } from "@espalier/jsonl-stream/node";
import {
  message,
  type SessionHeader,
  type SessionListing,
  SessionTree,
  type StoreListOptions,
  sessionInfo,
} from "@espalier/session-tree";
import { fileStore } from "@espalier/session-tree/node";
import { afterEach, beforeEach, expect, test } from "vitest";

let home: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "espalier-list-"));
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

const header = (id: string): SessionHeader => ({
  type: "session",
  version: 3,
  id,
  timestamp: "2026-01-01T00:00:00.000Z",
  cwd: "/work",
});
const said = (content: string) => message.of({ message: { role: "user", content, timestamp: 1 } });
const catalogue = () => join(home, "listings.json");

async function made(id: string): Promise<string> {
  const session = await SessionTree.open(await fileStore({ home }).create(header(id)));
  await session.append([said(`I am ${id}`), sessionInfo.of({ name: `called ${id}` })]);
  await session.close();
  return session.log.ref;
}

async function listed(calls?: FileCalls, how?: StoreListOptions): Promise<SessionListing[]> {
  const listings: SessionListing[] = [];
  const store = fileStore({ home, ...(calls ? { calls } : {}) });
  for await (const listing of store.list(how)) listings.push(listing);
  return listings;
}

/** Calls to the file system under which no file can be opened: one that has to be is missing in the list. */
const nothingOpens: FileCalls = {
  ...nodeFileCalls,
  openSync() {
    throw new Error("There are no descriptors left.");
  },
};

test("a name entry joined to a torn line is found", async () => {
  const timestamp = "2026-01-01T00:00:00.000Z";
  const cut = '{"type":"message","id":"cut","parentId":null,"time';
  const named = { type: "session_info", id: "named", parentId: null, timestamp, name: "glued" };
  const later = { ...said("later"), id: "later", parentId: "named", timestamp };
  appendFileSync(await made("a"), `${cut}${JSON.stringify(named)}\n${JSON.stringify(later)}\n`);
  expect((await listed()).map(({ name }) => name)).toEqual(["glued"]);
});

test("several entries on one line are read: header, first message, name, compaction and time", async () => {
  const file = await made("a");
  const text = readFileSync(file, "utf8");
  const before = (await listed())[0];
  for (const glued of [
    text.replaceAll("\n", ""),
    `${text.replace("\n", "")}`,
    text.replaceAll("}\n{", "}{"),
  ]) {
    writeFileSync(file, glued);
    const [after] = await listed();
    expect({ ...after, bytes: 0, modified: "" }).toEqual({ ...before, bytes: 0, modified: "" });
  }
});

test("a second list opens no unchanged file, and gives the same result", async () => {
  await made("one");
  await made("two");
  const first = await listed();
  expect(first.map(({ name }) => name).sort()).toEqual(["called one", "called two"]);
  expect(await listed(nothingOpens)).toEqual(first);
  expect(statSync(catalogue()).mode & 0o777).toBe(0o600);
});

test("only a changed session is read again", async () => {
  const file = await made("one");
  await made("two");
  await listed();
  const session = await SessionTree.open(await fileStore({ home }).open({ file }, "write"));
  await session.append(sessionInfo.of({ name: "renamed" }));
  await session.close();
  expect((await listed(nothingOpens)).map(({ name }) => name)).toEqual(["called two"]);
  expect((await listed()).find(({ ref }) => ref === file)?.name).toBe("renamed");
});

test("a file that was replaced by another one of the same length is read again", async () => {
  const file = await made("one");
  await listed();
  const text = readFileSync(file, "utf8");
  rmSync(file);
  writeFileSync(file, text.replace("called one", "called ONE"));
  expect((await listed()).map(({ name }) => name)).toEqual(["called ONE"]);
});

test.each([
  "",
  "null",
  "[]",
  "{",
  '{"shape":2}',
  '{"shape":2,"sessions":{"x":null}}',
  '{"shape":1,"sessions":{}}',
])("without a usable catalogue (%j) the list is the same, and a catalogue is written", async (text) => {
  const file = await made("one");
  const first = await listed();
  const hurt = text.replace('"x"', JSON.stringify(file));
  writeFileSync(catalogue(), hurt);
  expect(await listed()).toEqual(first);
  expect(await listed(nothingOpens)).toEqual(first);
});

test("a deleted session leaves nothing in the catalogue, for every way of deleting", async () => {
  const [one, two] = [await made("one"), await made("two")];
  await listed();
  await fileStore({ home }).delete({ file: one });
  expect(readFileSync(catalogue(), "utf8")).not.toContain("I am one");
  rmSync(two);
  expect(await listed()).toEqual([]);
  expect(readFileSync(catalogue(), "utf8")).not.toContain("I am two");
});

test("a folder that was removed and is no longer listed leaves nothing in the catalogue", async () => {
  const elsewhere = mkdtempSync(join(tmpdir(), "espalier-elsewhere-"));
  const other = await SessionTree.open(await fileStore({ home: elsewhere }).create(header("other")));
  await other.close();
  for await (const _ of fileStore({ home, folders: [elsewhere] }).list());
  await made("own");
  await listed();
  expect(readFileSync(catalogue(), "utf8")).toContain(other.log.ref);
  rmSync(elsewhere, { recursive: true });
  await made("another");
  await listed();
  expect(readFileSync(catalogue(), "utf8")).not.toContain(other.log.ref);
});

test("a list that ends early keeps its results; without a writable catalogue, it only lists", async () => {
  await made("one");
  for await (const { id } of fileStore({ home }).list()) {
    expect(id).toBe("one");
    break;
  }
  expect(existsSync(catalogue())).toBe(true);
  const gone = join(home, "gone");
  const elsewhere: string[] = [];
  for await (const { id } of fileStore({ home: gone, folders: [join(home, "sessions")] }).list())
    elsewhere.push(id);
  expect(elsewhere).toEqual(["one"]);
  expect(existsSync(gone)).toBe(false);
});

test("a list enters folders, and never follows links", async () => {
  const elsewhere = join(home, "elsewhere");
  const sessions = join(home, "sessions");
  const deepest = join(sessions, "deep", "deeper");
  mkdirSync(deepest, { recursive: true });
  mkdirSync(elsewhere);
  writeFileSync(join(deepest, "one.jsonl"), `${JSON.stringify(header("one"))}\n`);
  writeFileSync(join(elsewhere, "two.jsonl"), `${JSON.stringify(header("two"))}\n`);
  symlinkSync(elsewhere, join(sessions, "linked"));
  symlinkSync(join(sessions, "circle"), join(sessions, "circle"));
  symlinkSync(join(home, "nothing"), join(sessions, "dangling"));
  expect((await listed()).map(({ id }) => id).sort()).toEqual(["one"]);
});

test("a folder is listed once, under any of its names", async () => {
  const one = await made("one");
  const sessions = join(home, "sessions");
  const around = join(home, "around");
  symlinkSync(sessions, around);
  const store = fileStore({ home, folders: [around, join(one, ".."), sessions] });
  const refs: string[] = [];
  for await (const { ref } of store.list()) refs.push(ref);
  expect(refs).toHaveLength(1);
  await (await store.open("one", "read")).close();
});

test("a listed path opens from every working folder", async () => {
  const one = await made("one");
  for (const options of [{ home: relative(".", home) }, { home, folders: [relative(".", join(one, ".."))] }])
    for await (const { ref } of fileStore(options).list()) expect(ref).toBe(one);
});

test("a file that cannot be read to its end is skipped, reported, and closed", async () => {
  const files = [await made("one"), await made("two")];
  const skipped: string[] = [];
  const noSession = join(files[0]!, "../notes.jsonl");
  writeFileSync(noSession, "");
  const open = new Set<number>();
  let reads = 0;
  const calls: FileCalls = {
    ...nodeFileCalls,
    openSync(...call) {
      const fd = nodeFileCalls.openSync(...call);
      open.add(fd);
      reads = 0;
      return fd;
    },
    closeSync(fd) {
      open.delete(fd);
      nodeFileCalls.closeSync(fd);
    },
    // Opening a file reads its end and its header.
    readSync(...call) {
      reads += 1;
      if (reads > 3) throw Object.assign(new Error("EIO"), { code: "EIO" });
      return nodeFileCalls.readSync(...call);
    },
  };
  const onSkipped = (place: string, { code }: EspalierError) => skipped.push(`${code} ${place}`);
  expect(await listed(calls, { onSkipped })).toEqual([]);
  expect(skipped.sort()).toEqual(files.map((file) => `unreadable ${file}`).sort());
  expect(open).toEqual(new Set());
  expect(reads).toBe(4);
  expect(await listed()).toHaveLength(2);
});
