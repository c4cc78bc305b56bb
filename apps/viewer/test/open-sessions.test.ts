import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { afterAll, expect, test } from "vitest";
import { OpenSessions } from "../src/server/open-sessions.ts";
import { DEMO, Scratch, sessionsIn } from "./scratch.ts";

const scratch = new Scratch();
afterAll(() => scratch.end());

const KEYS = Array.from({ length: 60 }, (_, at) => `session${at}`);
for (const key of KEYS)
  writeFileSync(scratch.path(`${key}.jsonl`), readFileSync(DEMO, "utf8").replace("LTfrBGnUynOG", key));

test("a session is not closed while it is read, whatever number of others are read", async () => {
  const open = new OpenSessions(sessionsIn(scratch.folder));
  const [first = "", ...others] = KEYS;
  const read = await open.read(first, async (reader) => {
    for (const key of others) expect((await open.read(key, (other) => other.facts())).id).toBe(key);
    return reader.facts();
  });
  expect(read).toMatchObject({ id: first, length: 212 });
  const all = await Promise.all(KEYS.map((key) => open.read(key, (reader) => reader.facts())));
  expect(all.map(({ id }) => id)).toEqual(KEYS);
  await open.close();
});

/** Sessions that count how many of them are open. */
function countedSessions() {
  const counted = { ...sessionsIn(scratch.folder), opened: 0 };
  const { read } = counted;
  counted.read = async (ref) => {
    const session = await read(ref);
    const { close } = session;
    counted.opened++;
    session.close = async () => {
      counted.opened--;
      await close.call(session);
    };
    return session;
  };
  return counted;
}

test("of many sessions a few stay open, and in the end none", async () => {
  const sessions = countedSessions();
  const open = new OpenSessions(sessions);
  await open.list();
  await Promise.all(KEYS.map((key) => open.read(key, (reader) => reader.facts())));
  expect(sessions.opened).toBe(24);
  await open.close();
  expect(sessions.opened).toBe(0);
});

test("a session whose file was replaced is opened again, and the old one is closed after its last read", async () => {
  const sessions = countedSessions();
  const open = new OpenSessions(sessions);
  const file = scratch.path("session2.jsonl");
  const lengthOf = () => open.read("session2", (reader) => reader.facts()).then(({ length }) => length);
  const lines = readFileSync(file, "utf8").split("\n");
  const between = await open.read("session2", async (reader) => {
    const { length } = await reader.facts();
    rmSync(file);
    writeFileSync(file, `${lines.slice(0, 4).join("\n")}\n`);
    expect(await lengthOf()).toBe(3);
    expect(sessions.opened).toBe(2);
    return length;
  });
  expect(between).toBe(212);
  expect(sessions.opened).toBe(1);
  await open.close();
  expect(sessions.opened).toBe(0);
});

test("an error of a read is thrown, and the session can be read again", async () => {
  const open = new OpenSessions(sessionsIn(scratch.folder));
  const failing = open.read("session1", () => Promise.reject(new Error("no such row")));
  await expect(failing).rejects.toThrow("no such row");
  expect((await open.read("session1", (reader) => reader.facts())).id).toBe("session1");
  await open.close();
});
