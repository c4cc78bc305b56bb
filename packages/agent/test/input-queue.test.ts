import { createAgent } from "@espalier/agent";
import { type ScriptedTurn, scriptedModel } from "@espalier/agent/testing";
import { createSession, defineExtension, openSession, type Session } from "@espalier/engine";
import {
  isMessage,
  memoryStore,
  messageText,
  type SessionLog,
  type SessionStore,
} from "@espalier/session-tree";
import fc from "fast-check";
import { expect, test } from "vitest";
import { quiet, textsOf, until, workingFolder } from "./stage.ts";

/** What somebody does while an agent works, or does not. */
const acts = fc.array(
  fc.constantFrom("say", "say", "say", "answer", "fail", "abort", "compact", "reopen", "fork"),
  { minLength: 1, maxLength: 14 },
);

test("input during any event is delivered in order and once", async () => {
  const home = workingFolder();
  await fc.assert(
    fc.asyncProperty(acts, async (happening) => {
      let session: Session = await createSession({ cwd: home, home, log: quiet });
      /** Ends the answer that is on its way. */
      let answer: ((turn: ScriptedTurn) => void) | undefined;
      const model = {
        ...scriptedModel([]),
        async *send(request: never, signal: AbortSignal) {
          const turn = await new Promise<ScriptedTurn>((resolve) => {
            answer = resolve;
            signal.addEventListener("abort", () => resolve({}));
          });
          answer = undefined;
          yield* scriptedModel([turn]).send(request, signal);
        },
      };
      let agent = createAgent({ session, model });
      let running: Promise<unknown>[] = [];
      const said: string[] = [];
      const idle = async () => {
        await Promise.all(running);
        running = [];
      };
      for (const act of [...happening, "reopen", "say", "answer"]) {
        if (act === "say") {
          said.push(`${said.length}`);
          const before = textsOf(session.file, "user").length + agent.queued.length;
          running.push(agent.run(said.at(-1)!));
          // It is on disk before the next thing happens.
          await until(() => textsOf(session.file, "user").length + agent.queued.length > before);
        } else if (act === "answer" || act === "fail") {
          await until(() => answer !== undefined || !agent.isRunning);
          answer?.(act === "answer" ? { text: "Yes." } : { stopReason: "error", errorMessage: "529" });
        } else if (act === "abort") {
          agent.abort("all");
          await idle();
        } else if (act === "compact") running.push(agent.forceCompact().catch(unlessAborted));
        else if (act === "fork" && session.leafId !== null) {
          const { file } = await session.fork(session.leafId);
          const fork = await openSession({ file }, { home, log: quiet });
          expect(createAgent({ session: fork, model }).queued).toEqual([]);
          await fork.close();
        } else if (act === "reopen") {
          agent.abort("all");
          await idle();
          await session.close();
          session = await openSession({ file: session.file }, { home, log: quiet });
          agent = createAgent({ session, model });
        }
      }
      while (agent.isRunning) {
        await until(() => answer !== undefined || !agent.isRunning);
        answer?.({ text: "Yes." });
        await new Promise(setImmediate);
      }
      await idle();
      expect(agent.queued.length).toBe(0);
      expect(textsOf(session.file, "user")).toEqual(said);
      await session.close();
    }),
    { numRuns: 40, endOnFailure: true },
  );
});

test("a second prompt that follows the first at once is delivered after it", async () => {
  const session = await createSession({ store: memoryStore(), log: quiet });
  const agent = createAgent({ session, model: scriptedModel([{ text: "Pears." }, { text: "Plums." }]) });
  await Promise.all([agent.run("What grows here?"), agent.run("And there?")]);
  const said = session
    .getBranch()
    .flatMap((entry) => (isMessage(entry, "user") ? [messageText(entry.message)] : []));
  expect(said).toEqual(["What grows here?", "And there?"]);
});

test("input at the moment when a run ends is sent with its text, by that run or by a new one", async () => {
  for (let steps = 0; steps < 60; steps++) {
    const session = await createSession({ store: memoryStore(), log: quiet });
    const model = scriptedModel([{ text: "Pears." }, { text: "Plums." }]);
    const agent = createAgent({ session, model });
    let late: Promise<unknown> | undefined;
    const ends: unknown[] = [];
    agent.on((event) => {
      if (event.type === "agent_end") ends.push(event.lastAssistantMessage?.content);
    });
    agent.on(async ({ type }) => {
      if (type !== "answer" || late) return;
      late = Promise.resolve();
      for (let step = 0; step < steps; step++) await undefined;
      late = agent.run("And there?");
    });
    await agent.run("What grows here?");
    await until(() => model.requests.length >= 2 && !agent.isRunning);
    await late;
    const newest = model.requests.map(({ messages }) => JSON.stringify(messages.at(-1)));
    expect(newest, `${steps}`).toEqual([
      expect.stringContaining("What grows here?"),
      expect.stringContaining("And there?"),
    ]);
    expect(agent.queued).toEqual([]);
    expect(ends, `${steps}`).not.toContain(undefined);
  }
});

/** A model that answers once it is released. */
function waitingModel(turns: ScriptedTurn[]) {
  let isAsked = false;
  let release = () => {};
  const isReleased = new Promise<void>((resolve) => {
    release = resolve;
  });
  const scripted = scriptedModel(turns);
  const send: typeof scripted.send = async function* (request, signal) {
    isAsked = true;
    await isReleased;
    yield* scripted.send(request, signal);
  };
  return { model: { ...scripted, send }, isAsked: () => isAsked, release };
}

/** A store whose sessions lie elsewhere: all of one is within reach only when it was asked for. */
function farStore(): SessionStore {
  const store = memoryStore();
  const far = (log: SessionLog): SessionLog => {
    let isLoaded = false;
    return new Proxy(log, {
      get: (target, name) => {
        if (name === "view" && !isLoaded) return undefined;
        if (name === "load") isLoaded = true;
        const value: unknown = Reflect.get(target, name);
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
  };
  return {
    ...store,
    create: async (...given) => far(await store.create(...given)),
    open: async (...given) => far(await store.open(...given)),
  };
}

test("input during a run is delivered in a remote session too", async () => {
  const store = farStore();
  const session = await createSession({ store, whole: false, log: quiet });
  const { model, isAsked, release } = waitingModel([{ text: "Pears." }, { text: "Plums." }]);
  const agent = createAgent({ session, model });
  const run = agent.run("What grows here?");
  await until(isAsked);
  expect(session.log.view).toBe(undefined);
  await agent.run("And there?");
  expect(agent.queued).toHaveLength(1);
  release();
  expect(await run).toMatchObject({ content: [{ text: "Plums." }] });
  expect(agent.queued).toEqual([]);
});

test("queued input is delivered even if a compaction keeps nothing of its path", async () => {
  const forgetful = defineExtension((api) => {
    api.on("session_before_compact", ({ compactionId }) => ({
      compaction: { summary: "They asked what grows here.", firstKeptEntryId: compactionId },
    }));
  });
  const session = await createSession({
    store: memoryStore(),
    log: quiet,
    extensions: [forgetful],
    compaction: { keepRecentTokens: 100 },
  });
  const { model, isAsked, release } = waitingModel([
    { text: "Pears. ".repeat(100), inputTokens: 190_000 },
    { text: "Plums." },
  ]);
  const agent = createAgent({ session, model });
  const run = agent.run("What grows here?");
  await until(isAsked);
  await agent.run("And there?");
  release();
  expect(await run).toMatchObject({ content: [{ text: "Plums." }] });
  expect(JSON.stringify(model.requests[1])).toContain("They asked what grows here.");
  expect(JSON.stringify(model.requests[1]!.messages.at(-1))).toContain("And there?");
  expect(agent.queued).toEqual([]);
});

function unlessAborted(error: { code?: unknown }): void {
  if (error.code !== "aborted") throw error;
}
