import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createSession, openSession } from "@espalier/engine";
import { memoryStore, type SessionLog, type SessionStore } from "@espalier/session-tree";
import { expect, test, vi } from "vitest";
import { createShell } from "../src/shell.ts";
import { actEffects } from "../src/terminal/effects/acts.ts";
import { listEffects, sessionEffects } from "../src/terminal/open-terminal.ts";
import type { TerminalEvent } from "../src/terminal/state/update.ts";

/** Milliseconds that a busy machine may take. */
const PATIENCE = { timeout: 30_000 };

/** A store somewhere else: the bytes of a session come when they are asked for. */
function distant(store: SessionStore): { store: SessionStore; loaded: string[] } {
  const loaded: string[] = [];
  const far = (log: SessionLog): SessionLog => {
    let isLoaded = false;
    return new Proxy(log, {
      get(target, key) {
        if (key === "view" && !isLoaded) return undefined;
        if (key === "load")
          return () => {
            isLoaded = true;
            loaded.push(target.ref);
            return target.load();
          };
        const value: unknown = Reflect.get(target, key, target);
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
  };
  const open: SessionStore["open"] = async (ref, mode) => far(await store.open(ref, mode));
  return { store: { ...store, open }, loaded };
}

async function written(store: SessionStore, text: string): Promise<string> {
  const session = await createSession({ store, cwd: "/project" });
  await session.appendMessages([
    { role: "user", content: text },
    {
      role: "assistant",
      content: [{ type: "text", text: "Yes." }],
      provider: "p",
      model: "m",
      stopReason: "stop",
      usage: {
        input: 1,
        output: 1,
        cacheRead: 0,
        cacheWrite: 0,
        totalTokens: 2,
        cost: { input: 1, output: 1, cacheRead: 0, cacheWrite: 0, total: 2 },
      },
    },
  ]);
  await session.close();
  return session.file;
}

test("branches and cost are listed for sessions of a store too, except for long sessions", async () => {
  const near = memoryStore();
  const short = await written(near, "Short");
  const long = await written(near, "long ".repeat(500_000));
  const { store, loaded } = distant(near);
  const events: TerminalEvent[] = [];
  const effects = listEffects({ store }, (event) => events.push(event));
  effects.performers["list-sessions"]({ type: "list-sessions", filter: {} });
  await vi.waitFor(
    () => expect(events).toContainEqual(expect.objectContaining({ type: "sessions", isDone: true })),
    PATIENCE,
  );
  const { sessions } = events.findLast((event) => event.type === "sessions")!;
  const listed = (ref: string) => sessions.find((session) => session.ref === ref)!;
  // One that was removed since keeps no facts from the others.
  effects.performers["read-facts"]({
    type: "read-facts",
    sessions: [{ ...listed(short), ref: "gone-since" }, listed(long), listed(short)],
  });
  await vi.waitFor(
    () =>
      expect(events).toContainEqual({
        type: "facts",
        ref: short,
        facts: { branches: 1, bill: expect.objectContaining({ calls: 1, cost: 2, unpriced: 0 }) },
      }),
    PATIENCE,
  );
  expect(loaded).toEqual([short]);
  effects.end();
});

test("a message is shown while a session is fetched, and new entries arrive", async () => {
  const near = memoryStore();
  const ref = await written(near, "Here");
  const events: TerminalEvent[] = [];
  const effects = sessionEffects({ ...createShell([]), ...distant(near) }, (event) => events.push(event));
  effects.performers.open({ type: "open", ref });
  await vi.waitFor(
    () => expect(events.map(({ type }) => type)).toEqual(["warned", "opened", "opened"]),
    PATIENCE,
  );
  expect(events[0]).toEqual({ type: "warned", message: "Fetching the session from its store …" });
  const session = await openSession({ file: ref }, { store: near });
  await session.appendMessages([{ role: "user", content: "And there" }]);
  await session.close();
  await vi.waitFor(
    () => expect(events.at(-1)).toMatchObject({ type: "grown", model: { length: 3 } }),
    PATIENCE,
  );
  effects.performers.close({ type: "close" });
});

test("a session that the user left before it was loaded is not shown", async () => {
  const near = memoryStore();
  const [left, wanted] = [await written(near, "Left"), await written(near, "Wanted")];
  const opened: string[] = [];
  const effects = sessionEffects({ ...createShell([]), ...distant(near) }, (event) => {
    if (event.type === "opened") opened.push(event.ref);
  });
  effects.performers.open({ type: "open", ref: left });
  effects.performers.close({ type: "close" });
  effects.performers.open({ type: "open", ref: left });
  effects.performers.open({ type: "open", ref: wanted });
  await vi.waitFor(() => expect(opened).toHaveLength(2), PATIENCE);
  expect(opened).toEqual([wanted, wanted]);
  effects.performers.close({ type: "close" });
});

test("a session continues in another agent, in this folder if its own does not exist here", async () => {
  const folder = mkdtempSync(join(tmpdir(), "espalier-terminal-"));
  vi.stubEnv("PI_CODING_AGENT_SESSION_DIR", folder);
  const store = memoryStore();
  const session = await createSession({ store, cwd: "/no/such/folder" });
  const [entry] = await session.appendMessages([{ role: "user", content: "Which tide?" }]);
  await session.close();
  const events: TerminalEvent[] = [];
  const effects = actEffects({ ...createShell([]), store }, (event) => events.push(event), {
    ref: () => session.file,
    refresh: async () => undefined,
  });
  try {
    effects.performers.continue({ type: "continue", entryId: entry!.id, agent: "pi" });
    await vi.waitFor(() => expect(events).toHaveLength(1), PATIENCE);
    const [file] = readdirSync(folder);
    expect(events).toEqual([
      {
        type: "continued",
        lines: expect.arrayContaining([
          `The session's folder /no/such/folder does not exist here; it continues in ${process.cwd()}.`,
          `1 entry written to ${join(folder, file!)}.`,
        ]),
        command: `pi --session ${join(folder, file!)}`,
      },
    ]);
  } finally {
    vi.unstubAllEnvs();
    rmSync(folder, { recursive: true });
  }
});

test("aborted work that fails later is over", async () => {
  const events: TerminalEvent[] = [];
  const effects = actEffects({ ...createShell([]), store: memoryStore() }, (event) => events.push(event), {
    ref: () => "nowhere",
    refresh: async () => undefined,
  });
  for (const begin of [
    () => effects.performers.plan({ type: "plan" }),
    () => effects.performers.export({ type: "export", entryId: null, format: "json" }),
    () => effects.performers.act({ type: "act", act: { name: "undo" } }),
  ]) {
    begin();
    effects.performers.abort({ type: "abort" });
    await effects.end();
  }
  const told = { type: "told", message: "Aborted; the session continues where it was." };
  expect(events).toEqual([told, told, told]);
});
