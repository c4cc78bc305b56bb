// Results that come late in the terminal: what a user has done since then stays.
import { EventEmitter } from "node:events";
import { closeSync, mkdirSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { createSession, openSession } from "@espalier/engine";
import { EspalierError } from "@espalier/jsonl-stream";
import { memoryStore, type SessionStore } from "@espalier/session-tree";
import { expect, test, vi } from "vitest";
import { createShell } from "../src/shell.ts";
import { actEffects } from "../src/terminal/effects/acts.ts";
import { listEffects, openTerminal, sessionEffects } from "../src/terminal/open-terminal.ts";
import type { TerminalEvent } from "../src/terminal/state/update.ts";
import { temporaryFolder } from "./espalier.ts";
import { modelOf, Scratch } from "./terminal-scratch.ts";

/** Milliseconds that a busy machine may take. */
const PATIENCE = { timeout: 30_000 };

/** Receives the events of effects, which report no error. */
const receives = (receive: (event: TerminalEvent) => void) => (event: TerminalEvent) => {
  if (event.type === "failed") throw new Error(event.message);
  receive(event);
};

const said = (id: string, parentId: string | null) => ({
  type: "message",
  id,
  parentId,
  timestamp: "2026-03-08T12:00:00.000Z",
  message: { role: "user", content: id, timestamp: 1 },
});
const chain = [said("first", null), said("second", "first"), said("third", "second"), said("last", "third")];

const listed = (ref: string, modified: string) => ({
  id: ref,
  ref,
  cwd: "/home/somebody/boats",
  name: ref,
  firstMessage: null,
  modified,
  updatedAt: null,
  lastCompaction: null,
  bytes: 1_500,
  parent: null,
  importedFrom: null,
  agent: "espalier",
});
const listing = ["c", "b", "a"].map((ref, at) => listed(ref, `2026-03-0${8 - at}T11:00:00Z`));

const sessionIn = async (store: SessionStore): Promise<string> => {
  const session = await createSession({ store, cwd: "/project" });
  await session.appendMessages([{ role: "user", content: "Here" }]);
  await session.close();
  return session.file;
};

test("a search moves the cursor when it ends, unless a key has moved it since Enter", () => {
  const found: TerminalEvent = { type: "found", query: "third", entryIds: ["third"], isDone: true };
  const entered = () => new Scratch().open(modelOf(chain)).keys("<", "/").type("third").keys("enter");
  expect(entered().happen(found).selected).toContain("third");
  const moved = entered().keys("down").happen(found);
  expect(moved.selected).toContain("second");
  // Its hits are there for the next key.
  expect(moved.keys("n").selected).toContain("third");
});

test("an act moves the cursor when it ends, unless a key has moved it since", () => {
  const labelled = () => new Scratch().open(modelOf(chain)).keys("<", "l").type("x").keys("enter");
  const acted: TerminalEvent = {
    type: "acted",
    outcome: { value: {}, sentences: ["Labelled."], entryId: "third" },
  };
  expect(labelled().happen(acted).selected).toContain("third");
  expect(labelled().keys("down").happen(acted).selected).toContain("second");
  // A cursor on the leaf is moved by the session, not by the user.
  const atLeaf = new Scratch().open(modelOf(chain)).keys("l").type("x").keys("enter");
  atLeaf.happen({
    type: "grown",
    ref: "/sessions/one.jsonl",
    model: modelOf([...chain, said("next", "last")]),
  });
  expect(atLeaf.selected).toContain("next");
  expect(atLeaf.happen(acted).selected).toContain("third");
});

test("the list keeps its selected session when others come, and when it is read again", () => {
  const scratch = new Scratch().happen({ type: "sessions", sessions: listing, isDone: true });
  scratch.keys("down", "down");
  const newer = listed("d", "2026-03-09T11:00:00Z");
  scratch.happen({ type: "sessions", sessions: [newer, ...listing], isDone: true }).keys("enter");
  expect(scratch.effects.at(-1)).toEqual({ type: "open", ref: "a" });
  scratch.open(modelOf(chain), { ref: "a" }).keys("escape");
  scratch.happen({ type: "sessions", sessions: [newer], isDone: false });
  scratch.happen({ type: "sessions", sessions: [newer, ...listing], isDone: true }).keys("enter");
  expect(scratch.effects.at(-1)).toEqual({ type: "open", ref: "a" });
});

test("a search of all sessions that a session covered continues on the way back", () => {
  const scratch = new Scratch().happen({ type: "sessions", sessions: listing, isDone: true });
  scratch.keys("/").type("lights");
  const hit = { file: "a", sessionId: "a", entryId: "e7", role: "user", snippet: "lights", onPath: true };
  scratch.happen({ type: "hits", query: "lights", hits: [hit], isDone: false }).keys("enter");
  scratch.open(modelOf(chain), { ref: "a" }).keys("escape");
  expect(scratch.effects.slice(-3)).toEqual(
    expect.arrayContaining([{ type: "search", query: "lights", filter: {} }]),
  );
});

test("an import goes on while a session is open, and no act begins beside it", () => {
  const scratch = new Scratch().keys("i").open(modelOf(chain)).keys("H");
  expect(scratch.effects).toEqual([{ type: "import" }]);
  expect(scratch.screen).toContain("Still importing.");
});

test("a session that the list skips after an import is named behind the result of the import", () => {
  const scratch = new Scratch().keys("i");
  scratch.happen({ type: "imported", message: "Imported: 1 session, 1 new entry.", isFailure: false });
  const skipped: TerminalEvent = { type: "skipped", message: "old.jsonl cannot be read." };
  scratch.happen(skipped, skipped);
  expect(scratch.screen).toContain("Imported: 1 session, 1 new entry. old.jsonl cannot be read.");
  expect(scratch.screen.split("old.jsonl")).toHaveLength(2);
});

test("a list that was read for an earlier filter is not shown when it ends later", async () => {
  const near = memoryStore();
  await sessionIn(near);
  const ends: (() => void)[] = [];
  const store: SessionStore = {
    ...near,
    async *list(options) {
      yield* near.list(options);
      // The store answers in the order in which the test wants it to.
      await new Promise<void>((end) => ends.push(end));
    },
  };
  const counts: number[] = [];
  const effects = listEffects(
    { store },
    receives((event) => {
      if (event.type === "sessions" && event.isDone) counts.push(event.sessions.length);
    }),
  );
  effects.performers["list-sessions"]({ type: "list-sessions", filter: { project: "elsewhere" } });
  await vi.waitFor(() => expect(ends).toHaveLength(1), PATIENCE);
  effects.performers["list-sessions"]({ type: "list-sessions", filter: {} });
  await vi.waitFor(() => expect(ends).toHaveLength(2), PATIENCE);
  ends[1]!();
  await vi.waitFor(() => expect(counts).toEqual([1]), PATIENCE);
  ends[0]!();
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(counts).toEqual([1]);
  effects.end();
});

test("a session that the user left while the one before was being closed is not shown", async () => {
  const near = memoryStore();
  const [before, left] = [await sessionIn(near), await sessionIn(near)];
  let closes = () => {};
  const store: SessionStore = {
    ...near,
    async open(ref, mode) {
      const log = await near.open(ref, mode);
      const close = () => new Promise<void>((end) => (closes = end)).then(() => log.close());
      return new Proxy(log, {
        get(target, key) {
          if (key === "close" && target.ref === before) return close;
          const value: unknown = Reflect.get(target, key, target);
          return typeof value === "function" ? value.bind(target) : value;
        },
      });
    },
  };
  const opened: string[] = [];
  const effects = sessionEffects(
    { ...createShell([]), store },
    receives((event) => {
      if (event.type === "opened") opened.push(event.ref);
    }),
  );
  effects.performers.open({ type: "open", ref: before });
  await vi.waitFor(() => expect(opened).toEqual([before, before]), PATIENCE);
  const none = closes;
  effects.performers.open({ type: "open", ref: left });
  await vi.waitFor(() => expect(closes).not.toBe(none), PATIENCE);
  effects.performers.close({ type: "close" });
  closes();
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(opened).toEqual([before, before]);
});

test("a session that another program writes can be forked", async () => {
  const store = memoryStore();
  const ref = await sessionIn(store);
  const events: TerminalEvent[] = [];
  const effects = actEffects(
    { ...createShell([]), store },
    receives((event) => events.push(event)),
    { ref: () => ref, refresh: async () => undefined },
  );
  const other = await openSession({ file: ref }, { store });
  const act = { name: "fork", entryId: other.leafId!, position: "at" } as const;
  effects.performers.act({ type: "act", act });
  await vi.waitFor(() => expect(events).toHaveLength(1), PATIENCE);
  await other.close();
  expect(events).toMatchObject([{ type: "acted", outcome: { value: { leafId: act.entryId } } }]);
});

test("a plan that the user has aborted opens no dialog", async () => {
  const store = memoryStore();
  const ref = await sessionIn(store);
  const events: TerminalEvent[] = [];
  const effects = actEffects(
    { ...createShell([]), store },
    receives((event) => events.push(event)),
    { ref: () => ref, refresh: async () => undefined },
  );
  effects.performers.plan({ type: "plan" });
  effects.performers.abort({ type: "abort" });
  await effects.end();
  expect(events).toEqual([{ type: "told", message: "Aborted; the session continues where it was." }]);
});

/** Sessions of Claude Code, with one message each, below a folder that is its home for the rest of the test. */
function claudeSessions(home: string, ids: readonly string[]): void {
  const projects = join(home, "projects", "one");
  mkdirSync(projects, { recursive: true });
  for (const sessionId of ids) {
    const line = {
      type: "user",
      uuid: "11111111-1111-4111-8111-111111111111",
      parentUuid: null,
      sessionId,
      timestamp: "2026-03-08T12:00:00.000Z",
      cwd: "/project",
      message: { role: "user", content: "What is the ebb?" },
    };
    writeFileSync(join(projects, `${sessionId}.jsonl`), `${JSON.stringify(line)}\n`);
  }
  vi.stubEnv("CLAUDE_CONFIG_DIR", home);
}

const [FIRST, SECOND] = ["22222222-2222-4222-8222-222222222222", "33333333-3333-4333-8333-333333333333"];

/** Starts an import of Claude Code's sessions; returns its effects, and the events of its end. */
function startImport(store: SessionStore) {
  const ends: TerminalEvent[] = [];
  const effects = actEffects(
    { ...createShell([]), store },
    receives((event) => {
      if (event.type !== "progress") ends.push(event);
    }),
    { ref: () => "", refresh: async () => undefined },
  );
  effects.performers.import({ type: "import" });
  return { effects, ends };
}

test("an import names an agent's folder that cannot be read, and imports the others", async () => {
  const home = temporaryFolder();
  // Its name is longer than the system takes, so nobody can read it, the superuser included.
  const folder = join(home, "d".repeat(300));
  claudeSessions(home, [FIRST]);
  vi.stubEnv("CODEX_HOME", folder);
  const { ends } = startImport(memoryStore());
  await vi.waitFor(() => expect(ends).toHaveLength(1), PATIENCE);
  vi.unstubAllEnvs();
  const message = expect.stringMatching(/^Imported: 1 session, 1 new entry\. .*ENAMETOOLONG/);
  expect(ends).toEqual([{ type: "imported", message, isFailure: false }]);
});

test.each([
  ["fails", "No space.", true],
  ["is aborted", "The import was aborted.", false],
])(
  "after an import that %s, the sessions that it has written are listed",
  async (_end, reason, isFailure) => {
    const home = temporaryFolder();
    claudeSessions(home, [FIRST, SECOND]);
    vi.stubEnv("CODEX_HOME", join(home, "none"));
    const near = memoryStore();
    let count = 0;
    const store: SessionStore = {
      ...near,
      async create(...given) {
        if (++count === 2 && isFailure) throw new EspalierError("write-failed", reason);
        if (count === 2) started.effects.performers.abort({ type: "abort" });
        return near.create(...given);
      },
    };
    const started = startImport(store);
    await vi.waitFor(() => expect(started.ends).toHaveLength(1), PATIENCE);
    vi.unstubAllEnvs();
    const message = expect.stringMatching(new RegExp(`^${reason} Imported: [12] sessions?, `));
    expect(started.ends).toEqual([{ type: "imported", message, isFailure }]);
    const scratch = new Scratch().keys("i").happen(started.ends[0]!);
    expect(scratch.effects.at(-1)).toMatchObject({ type: "list-sessions" });
    expect(scratch.screen).toContain(reason);
  },
);

test("a list goes on when a session that was chosen in it cannot be opened", async () => {
  const near = memoryStore();
  for (let count = 0; count < 3; count++) await sessionIn(near);
  let more = () => {};
  const store: SessionStore = {
    ...near,
    async *list(options) {
      let count = 0;
      for await (const session of near.list(options)) {
        // What comes late is shown at once; the last session comes when the test wants it to.
        await new Promise<void>((resolve) => {
          if (++count === 3) more = resolve;
          else setTimeout(resolve, 150);
        });
        yield session;
      }
    },
    open: async () => {
      throw new EspalierError("not-found", "It was removed meanwhile.");
    },
  };
  const file = join(temporaryFolder(), "screen");
  const fd = openSync(file, "w");
  const shown = () => readFileSync(file, "utf8");
  const stdin = Object.assign(new PassThrough(), { setRawMode: () => undefined });
  const stdout = Object.assign(new EventEmitter(), { fd, columns: 80, rows: 24 });
  const stubs = [
    vi.spyOn(process, "stdin", "get").mockReturnValue(stdin as unknown as typeof process.stdin),
    vi.spyOn(process, "stdout", "get").mockReturnValue(stdout as unknown as typeof process.stdout),
  ];
  try {
    const left = openTerminal({ ...createShell([]), store });
    for (const stub of stubs) stub.mockRestore();
    await vi.waitFor(() => expect(shown()).toContain("1 session ·"), PATIENCE);
    stdin.write("\r");
    await vi.waitFor(() => expect(shown()).toContain("It was removed meanwhile."), PATIENCE);
    more();
    await vi.waitFor(() => expect(shown()).toContain("3 sessions · by age "), { timeout: 5_000 });
    stdin.write("q");
    await left;
  } finally {
    closeSync(fd);
  }
});
