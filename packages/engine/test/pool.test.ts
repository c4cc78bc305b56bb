import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import {
  migrateStore,
  openSession,
  openStore,
  type Session,
  type StoreOptions,
  sessionPool,
} from "@espalier/engine";
import { type PrivateServer, serverPrograms, startPrivateServer } from "@espalier/store-postgres/testing";
import { afterAll, expect, test, vi } from "vitest";

/** Far more than they take: other tests run beside. */
vi.setConfig({ testTimeout: 120_000, hookTimeout: 60_000 });

const folder = mkdtempSync(join(tmpdir(), "espalier-pool-"));
let server: PrivateServer | undefined;
afterAll(async () => {
  await server?.remove();
  rmSync(folder, { recursive: true });
});
const freshHome = () => mkdtempSync(join(folder, "home-"));

const say = (text: string) => async (session: Session) => {
  await session.say(text);
  return session;
};
const textsOf = (session: Session) => session.context.messages.map((message) => JSON.stringify(message));
async function stored(id: string, place: StoreOptions) {
  const session = await openSession(id, { ...place, mode: "read" });
  const found = { texts: textsOf(session), branches: session.branches().length };
  await session.close();
  return found;
}
const soon = (isSo: () => boolean) => vi.waitFor(() => expect(isSo()).toBe(true), { timeout: 30_000 });

test("simultaneous uses of one id get the same open session, one after the other, in order", async () => {
  const pool = sessionPool({ home: freshHome() });
  let inside = 0;
  const turns = Array.from({ length: 20 }, (_, n) =>
    pool.use("ada", async (session) => {
      expect(++inside).toBe(1);
      await session.say(`${n}.`);
      inside--;
      return session;
    }),
  );
  const sessions = await Promise.all(turns);
  expect(new Set(sessions).size).toBe(1);
  expect(textsOf(sessions[0]!).join(" ")).toMatch(/\b0\..*\b1\..*\b19\./s);
  expect(pool.size).toBe(1);
  await pool.close();
});

test("the use that creates a session sets its folder and parent, and later uses do not change them", async () => {
  const pool = sessionPool({ home: freshHome(), cwd: "/pool" });
  const parent = { sessionId: "main", entryId: null, kind: "subagent" } as const;
  const headerOf = (session: Session) => session.header;
  const made = { cwd: "/garden", parent };
  expect(await pool.use("ada", headerOf, made)).toMatchObject(made);
  expect(await pool.use("ada", headerOf, { cwd: "/elsewhere" })).toMatchObject(made);
  expect(await pool.use("bob", headerOf)).toMatchObject({ cwd: "/pool" });
  await pool.close();
});

test("a session is deleted in its turn, and the next use creates another one", async () => {
  const home = freshHome();
  const pool = sessionPool({ home });
  const [first, removed, next] = await Promise.all([
    pool.use("ada", say("One.")),
    pool.delete("ada"),
    pool.use("ada", say("Two.")),
  ]);
  expect(removed).toContain(first.file);
  expect(textsOf(next).join(" ")).not.toContain("One.");
  expect(pool.size).toBe(1);
  await pool.delete("ada");
  expect(pool.size).toBe(0);
  await expect(pool.delete("ada")).rejects.toMatchObject({ code: "not-found" });
  const other = await openSession((await pool.use("ada", say("Three."))).id, { home, mode: "read" });
  await other.close();
  await pool.close();
  await expect(pool.delete("ada")).rejects.toMatchObject({ code: "closed" });
});

test("an unused session is closed, and another process can open it", async () => {
  const home = freshHome();
  const pool = sessionPool({ home, idleMs: 20 });
  const first = await pool.use("ada", say("One."));
  await soon(() => pool.size === 0);
  const other = await openSession("ada", { home });
  await other.say("Two.");
  await other.close();
  const second = await pool.use("ada", say("Three."));
  expect(second).not.toBe(first);
  await pool.close();
  expect(await stored("ada", { home })).toMatchObject({ branches: 1 });
  expect(readdirSync(join(first.file, "..")).filter((name) => name.includes(".lease"))).toEqual([]);
});

test("two servers without idle time share users at random, and nothing is lost", async () => {
  const home = freshHome();
  const pools = [sessionPool({ home, idleMs: 0 }), sessionPool({ home, idleMs: 0 })];
  await Promise.all(Array.from({ length: 30 }, (_, n) => pools[n % 2]!.use(`user-${n % 3}`, say(`<${n}>`))));
  expect(pools.map(({ size }) => size)).toEqual([0, 0]);
  await Promise.all(pools.map((pool) => pool.close()));
  for (const user of [0, 1, 2]) {
    const { texts, branches } = await stored(`user-${user}`, { home });
    expect([branches, texts.join("").match(/<\d+>/g)?.length]).toEqual([1, 10]);
  }
});

test("above `max` the longest unused one is closed; if all are in use, the next caller waits", async () => {
  const pool = sessionPool({ home: freshHome(), max: 2 });
  const ada = await pool.use("ada", say("A."));
  const bob = await pool.use("bob", say("B."));
  expect(await pool.use("ada", say("A."))).toBe(ada);
  await pool.use("cy", say("C."));
  expect(pool.size).toBe(2);
  expect(await pool.use("ada", say("A."))).toBe(ada);
  expect(await pool.use("bob", say("B."))).not.toBe(bob);
  let release = () => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  const uses = ["ada", "bob"].map((id) => pool.use(id, () => held));
  let isIn = false;
  const third = pool.use("cy", () => {
    isIn = true;
  });
  await setTimeout(50);
  expect([isIn, pool.size]).toEqual([false, 2]);
  release();
  await Promise.all([...uses, third]);
  expect([isIn, pool.size]).toEqual([true, 2]);
  await pool.close();
});

test("a function that throws gets its own error, and the next use gets a reopened session", async () => {
  const pool = sessionPool({ home: freshHome() });
  const first = await pool.use("ada", say("One."));
  const failing = pool.use("ada", async (session) => {
    await session.say("Two.");
    throw new RangeError("of the work");
  });
  const after = pool.use("ada", say("Three."));
  await expect(failing).rejects.toThrow(RangeError);
  const second = await after;
  expect(second).not.toBe(first);
  expect(textsOf(second)).toHaveLength(3);
  rmSync(second.file);
  await expect(pool.use("ada", say("Four."))).rejects.toMatchObject({ code: "removed" });
  expect(textsOf(await pool.use("ada", say("A new one.")))).toHaveLength(1);
  await pool.close();
  expect(pool.size).toBe(0);
});

test("a session that cannot be closed is reported, or thrown by the closing of the pool, and leaves its place", async () => {
  const errors: string[] = [];
  const log = { warn() {}, error: (text: string) => void errors.push(text) };
  const pool = sessionPool({ home: freshHome(), max: 1, log });
  const breakClosing = (session: Session) => {
    const close = session.close.bind(session);
    session.close = async () => {
      await close();
      throw new Error("The disk is full.");
    };
  };
  await pool.use("ada", breakClosing);
  await pool.use("bob", breakClosing);
  expect(errors).toEqual(["The session ada could not be closed: The disk is full."]);
  expect(pool.size).toBe(1);
  await expect(pool.close()).rejects.toThrow("The disk is full.");
  expect(pool.size).toBe(0);
});

test("closing waits for accepted uses, and refuses later ones", async () => {
  const home = freshHome();
  const pool = sessionPool({ home });
  await pool.use("idle", say("Hello."));
  const uses = ["One.", "Two.", "Three."].map((text) =>
    pool.use("ada", async (session) => {
      await setTimeout(20);
      return say(text)(session);
    }),
  );
  const closing = pool.close();
  expect(pool.close()).toBe(closing);
  await expect(pool.use("bob", say("Late."))).rejects.toMatchObject({ code: "closed" });
  await closing;
  expect(pool.size).toBe(0);
  await Promise.all(uses);
  expect((await stored("ada", { home })).texts).toHaveLength(3);
  await expect(openSession("bob", { home })).rejects.toMatchObject({ code: "not-found" });
});

test("a nested use of the same id is refused instead of waiting forever", async () => {
  const pool = sessionPool({ home: freshHome() });
  const nested = pool.use("ada", () => pool.use("bob", () => pool.use("ada", say("Me again."))));
  await expect(nested).rejects.toMatchObject({ code: "bad-input" });
  await pool.use("ada", () => pool.use("bob", say("Another one.")));
  await pool.close();
  expect(() => sessionPool({ max: 0 })).toThrow("max of the pool");
});

test("a session that another process holds is waited for, then `busy`, and the id stays usable", async () => {
  const home = freshHome();
  const pool = sessionPool({ home, waitMs: 30 });
  const holder = await openSession((await pool.use("ada", say("One."))).id, { home, onBusy: "read-only" });
  await holder.close();
  await pool.close();
  const other = await openSession("ada", { home });
  const late = sessionPool({ home, waitMs: 30 });
  await expect(late.use("ada", say("Two."))).rejects.toMatchObject({ code: "busy" });
  expect(late.size).toBe(0);
  await other.close();
  expect(textsOf(await late.use("ada", say("Two.")))).toHaveLength(2);
  await late.close();
});

const users = async (place: StoreOptions) => {
  const pool = sessionPool({ ...place, max: 200, whole: false });
  const ids = Array.from({ length: 500 }, (_, n) => `user-${n}`);
  await Promise.all(["One.", "Two."].flatMap((text) => ids.map((id) => pool.use(id, say(text)))));
  expect(pool.size).toBeLessThanOrEqual(200);
  await pool.close();
  for (const id of ids.slice(0, 500).filter((_, n) => n % 25 === 0))
    expect(await stored(id, place)).toMatchObject({ texts: { length: 2 }, branches: 1 });
};

test("500 users at once, twice each, with 200 places", () => users({ home: freshHome() }));

test.skipIf(serverPrograms() === undefined)("500 users at once on PostgreSQL", async () => {
  server = await startPrivateServer();
  await migrateStore(server.url);
  const store = await openStore(server.url);
  await users({ store });
  await store.close();
});
