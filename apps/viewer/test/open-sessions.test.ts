import { readFileSync, writeFileSync } from "node:fs";
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

test("of many sessions a few stay open, and in the end none", async () => {
  let opened = 0;
  const sessions = sessionsIn(scratch.folder);
  const open = new OpenSessions({
    ...sessions,
    async read(ref) {
      const session = await sessions.read(ref);
      const { close } = session;
      opened++;
      session.close = async () => {
        opened--;
        await close.call(session);
      };
      return session;
    },
  });
  await open.list();
  await Promise.all(KEYS.map((key) => open.read(key, (reader) => reader.facts())));
  expect(opened).toBe(24);
  await open.close();
  expect(opened).toBe(0);
});

test("an error of a read is thrown, and the session can be read again", async () => {
  const open = new OpenSessions(sessionsIn(scratch.folder));
  const failing = open.read("session1", () => Promise.reject(new Error("no such row")));
  await expect(failing).rejects.toThrow("no such row");
  expect((await open.read("session1", (reader) => reader.facts())).id).toBe("session1");
  await open.close();
});
