import { type AgentEvent, createAgent, QUEUED } from "@espalier/agent";
import { scriptedModel } from "@espalier/agent/testing";
import {
  createSession,
  defineExtension,
  INTERRUPTED,
  NOT_RUN,
  openSession,
  type Provider,
} from "@espalier/engine";
import { EspalierError } from "@espalier/jsonl-stream";
import { isCustom } from "@espalier/session-tree";
import { extractiveSummarizer } from "@espalier/summarizer";
import {
  brokenReply,
  hangingReply,
  scriptedSummarizer,
  textReply,
  toolReply,
} from "@espalier/summarizer/testing";
import { expect, test, vi } from "vitest";
import { entriesOf, quiet, server, stage, textsOf, until, workingFolder } from "./stage.ts";

/** Aborts an agent and waits until its run has ended. What these tests abort would never end by itself. */
async function abortAndWait(agent: { abort(): void }, run: Promise<unknown>): Promise<void> {
  agent.abort();
  await run.catch(() => undefined);
}

const seen = (events: AgentEvent[], type: AgentEvent["type"]) => events.some((event) => event.type === type);

test("an abort ends an answer and keeps what there was of it", async () => {
  const { url } = await server({ reply: brokenReply("The pears are ripe, and so are", "hang") });
  const { agent, session, events } = await stage({ url });
  const run = agent.run("What grows here?");
  await until(() => seen(events, "text"));
  await abortAndWait(agent, run);
  expect(await run).toMatchObject({ stopReason: "aborted" });
  expect(textsOf(session.file, "assistant")).toEqual(["The pears are ripe, "]);
  expect(agent.isRunning).toBe(false);
});

test("an abort ends a model and a tool that listen to no signal, and every call has a result", async () => {
  const cwd = workingFolder();
  const session = await createSession({ cwd, home: cwd, log: quiet });
  const calls = ["c1", "c2", "c3"].map((id) => ({ id, name: "wait", arguments: {} }));
  const events: AgentEvent[] = [];
  const wait = { name: "wait", run: () => new Promise<string>(() => undefined) };
  const agent = createAgent({
    session,
    model: scriptedModel([{ calls }, { text: "Well." }]),
    tools: [wait],
  });
  agent.on((event) => events.push(event));
  const run = agent.run("Wait.");
  await until(() => seen(events, "tool_start"));
  await abortAndWait(agent, run);
  expect(textsOf(session.file, "toolResult")).toEqual([INTERRUPTED, NOT_RUN, NOT_RUN]);

  const deaf: Provider = {
    ...scriptedModel([]),
    async *send() {
      yield { type: "text", text: "Half" };
      await new Promise(() => undefined);
    },
  };
  await agent.setModel(deaf);
  events.length = 0;
  const next = agent.run("Again.");
  await until(() => seen(events, "text"));
  await abortAndWait(agent, next);
  expect(textsOf(session.file, "assistant").at(-1)).toBe("Half");
  await session.close();
});

test("an abort ends a compaction, and input that was typed meanwhile is answered once", async () => {
  const cwd = workingFolder();
  let release = () => {};
  const hangs = scriptedSummarizer(
    () =>
      new Promise<never>((_, reject) => {
        release = () => reject(new Error("late"));
      }),
  );
  const session = await createSession({
    cwd,
    home: cwd,
    log: quiet,
    summarizer: hangs,
    fallback: false,
    compaction: { keepRecentTokens: 100 },
  });
  const model = scriptedModel([
    { text: "long ".repeat(800) },
    { text: "long ".repeat(800) },
    { text: "Pears." },
  ]);
  const agent = createAgent({ session, model });
  await agent.run("One?");
  await agent.run("Two?");
  const compaction = agent.forceCompact();
  await until(() => hangs.requests.length > 0);
  const run = agent.run("What grows here?");
  await until(() => textsOf(session.file, "user").length === 3);
  expect(model.requests).toHaveLength(2);
  await abortAndWait(agent, compaction);
  release();
  expect(await run).toMatchObject({ content: [{ type: "text", text: "Pears." }] });
  expect(textsOf(session.file, "user")).toEqual(["One?", "Two?", "What grows here?"]);
  expect(entriesOf(session.file).some(({ type }) => type === "compaction")).toBe(false);
  await session.close();
});

test("who wants all to end does not wait for a run that waits for a compaction", async () => {
  const cwd = workingFolder();
  const session = await createSession({
    cwd,
    home: cwd,
    log: quiet,
    summarizer: scriptedSummarizer(() => new Promise<never>(() => undefined)),
    fallback: false,
    compaction: { keepRecentTokens: 100 },
  });
  const model = scriptedModel([{ text: "long ".repeat(800) }, { text: "long ".repeat(800) }]);
  const agent = createAgent({ session, model });
  await agent.run("One?");
  await agent.run("Two?");
  const compaction = agent.forceCompact();
  await until(() => session.isCompacting);
  const run = agent.run("What grows here?");
  await until(() => textsOf(session.file, "user").length === 3);
  agent.abort("all");
  await expect(compaction).rejects.toMatchObject({ code: "aborted" });
  expect(await run).toBe(null);
  expect(model.requests).toHaveLength(2);
  expect(agent.state.state).toBe("unsent");
  await session.close();
});

test("an abort ends the wait before a request is sent again", async () => {
  let asked = 0;
  const { url } = await server({
    reply: () =>
      ++asked === 1
        ? { kind: "error", status: 400, type: "invalid_request_error", message: "prompt is too long" }
        : textReply("Never."),
  });
  const open = { compaction: { keepRecentTokens: 50 }, summarizer: extractiveSummarizer() };
  const { agent, session, events } = await stage({ url, overflowRetryDelayMs: 600_000, open });
  for (let at = 0; at < 3; at++)
    await session.appendMessages([
      { role: "user", content: "More. ".repeat(300) },
      { role: "assistant", content: "Yes. ".repeat(300) },
    ] as never);
  const run = agent.run("What grows here?");
  await until(() => seen(events, "retry"));
  await abortAndWait(agent, run);
  expect(asked).toBe(1);
});

test("a model call ends with its answer, and with the run if a listener fails on a part of it", async () => {
  const cwd = workingFolder();
  const session = await createSession({ cwd, home: cwd, log: quiet });
  const ended: string[] = [];
  const model: Provider = {
    ...scriptedModel([]),
    async *send(request: unknown, signal: AbortSignal) {
      try {
        yield* scriptedModel([{ text: "Pears." }]).send(request as never, signal);
      } finally {
        ended.push("here");
      }
    },
  };
  const agent = createAgent({ session, model });
  await agent.run("What grows here?");
  await until(() => ended.length === 1);
  const stop = agent.on(({ type }) => {
    if (type === "text") throw new Error("The screen is gone.");
  });
  expect(await agent.run("And there?")).toMatchObject({
    stopReason: "error",
    errorMessage: "The screen is gone.",
  });
  stop();
  await until(() => ended.length === 2);
  await session.close();
});

test("a listener that fails at the beginning ends the run, and the next prompt is answered", async () => {
  const session = await createSession({ home: workingFolder() });
  const agent = createAgent({ session, model: scriptedModel([{ text: "Well." }]) });
  const forget = agent.on(({ type }) => {
    if (type === "agent_start") throw new Error("no screen");
  });
  await expect(agent.run("How are the pears?")).rejects.toThrow("no screen");
  forget();
  expect(agent.isRunning).toBe(false);
  expect(await agent.run("And the plums?")).toMatchObject({ stopReason: "stop" });
  await session.close();
});

test("a broken connection keeps the received text as a failed answer, and the next prompt continues", async () => {
  let asked = 0;
  const { url, requests } = await server({
    reply: () =>
      ++asked === 1 ? brokenReply("The pears are ripe, and so are", "cut", 1) : textReply("The plums."),
  });
  const { agent } = await stage({ url });
  expect(await agent.run("What grows here?")).toMatchObject({
    stopReason: "error",
    content: [{ type: "text", text: "The pears are ripe, " }],
  });
  expect(await agent.run("And what else?")).toMatchObject({ stopReason: "stop" });
  expect(requests.flatMap(({ problems }) => problems)).toEqual([]);
});

test("thinking before a broken answer is kept for people, and never sent", async () => {
  let asked = 0;
  const { url, requests } = await server({
    reply: () =>
      ++asked > 1
        ? textReply("Plums.")
        : {
            kind: "message",
            content: [
              { type: "thinking", thinking: "The pears are many, ", signature: "never-came" },
              { type: "text", text: "There are pears and plums here." },
            ],
            breaks: { afterDeltas: 3, how: "cut" },
          },
  });
  const { agent } = await stage({ url });
  expect(await agent.run("What grows here?")).toMatchObject({
    stopReason: "error",
    content: [
      { type: "thinking", thinking: "The pears are many, " },
      { type: "text", text: "There are pears and " },
    ],
  });
  expect(await agent.run("And what else?")).toMatchObject({ stopReason: "stop" });
  expect(JSON.stringify(requests.at(-1)!.body)).not.toMatch(/many|There are/);
  expect(requests.flatMap(({ problems }) => problems)).toEqual([]);
});

test("input during an answer is queued on disk and delivered in order and once", async () => {
  const { url, requests } = await server({
    reply: (_, n) => textReply(`Answer ${n}.`, { delayMs: n === 1 ? 200 : 0 }),
  });
  const { agent, session } = await stage({ url });
  const run = agent.run("First?");
  await until(() => requests.length === 1);
  expect(await Promise.all([agent.run("Second?"), agent.run("Third?")])).toEqual([null, null]);
  expect(entriesOf(session.file).filter((entry) => isCustom(entry, QUEUED))).toHaveLength(2);
  expect(await run).toMatchObject({ content: [{ text: "Answer 2." }] });
  expect(textsOf(session.file, "user")).toEqual(["First?", "Second?", "Third?"]);
  expect(agent.queued.length).toBe(0);
  const fork = await session.fork(session.leafId!);
  const forked = await openSession({ file: fork.file }, { home: session.header!.cwd });
  expect(createAgent({ session: forked, model: scriptedModel([]) }).queued).toEqual([]);
  await forked.close();
});

test("input that an append could not deliver stays queued, also for the next process that opens the session", async () => {
  const { url, requests } = await server({ reply: hangingReply() });
  const { agent, session, cwd } = await stage({ url });
  const run = agent.run("First?");
  await until(() => requests.length === 1);
  await agent.run("Second?");
  agent.abort();
  await run;
  vi.spyOn(session.log, "append").mockRejectedValue(new EspalierError("write-failed", "The disk is full."));
  await expect(agent.run("Third?")).rejects.toThrow("The disk is full.");
  expect(agent.queued.length).toBe(1);
  await session.close();
  const again = await openSession({ file: session.file }, { home: cwd });
  const next = createAgent({ session: again, model: scriptedModel([{ text: "Both." }]) });
  expect(next.queued.length).toBe(1);
  await next.continue();
  expect(textsOf(session.file, "user")).toEqual(["First?", "Second?"]);
  await again.close();
});

test("navigating during an answer stays at its target, and the answer is on the branch of its prompt", async () => {
  const { url, requests } = await server({
    reply: (_, n) => textReply(`Answer ${n}.`, { delayMs: n === 2 ? 200 : 0 }),
  });
  const { agent, session } = await stage({ url });
  await agent.run("First?");
  const [first] = session
    .getBranch()
    .filter(({ type }) => type === "message")
    .slice(1);
  const run = agent.run("Second?");
  await until(() => requests.length === 2);
  await session.navigate(first!.id);
  await expect(run).rejects.toMatchObject({ code: "moved" });
  expect(textsOf(session.file, "assistant")).toEqual(["Answer 1.", "Answer 2."]);
  expect(session.context.messages).toHaveLength(2);
  expect(await agent.run("Third?")).toMatchObject({ stopReason: "stop" });
  expect(requests.at(-1)!.problems).toEqual([]);
});

test("a compaction that keeps nothing does not move the run", async () => {
  let release = () => {};
  const isReleased = new Promise<void>((resolve) => {
    release = resolve;
  });
  const { url, requests } = await server({
    reply: async (_, n) => {
      if (n === 2) await isReleased;
      return textReply("Pears.");
    },
  });
  const forgetful = defineExtension((api) => {
    api.on("session_before_compact", ({ compactionId }) => ({
      compaction: { summary: "They asked what grows here.", firstKeptEntryId: compactionId },
    }));
  });
  const { agent, session } = await stage({
    url,
    contextWindow: 60_000,
    open: { extensions: [forgetful] },
  });
  await session.appendMessages([
    { role: "user", content: "Remember. ".repeat(10_000) },
    { role: "assistant", content: "I do. ".repeat(20_000) },
  ]);
  expect(await agent.run("What grows here?")).toMatchObject({ stopReason: "stop" });
  const path = session.getBranch().map(({ type }) => type);
  expect(path).toEqual(["message", "message", "message", "compaction", "custom", "message"]);
  expect(JSON.stringify(requests.at(-1)!.body)).toContain("They asked what grows here.");

  // Whoever really goes elsewhere is told so all the same.
  const run = agent.run("And there?");
  await until(() => requests.length === 2);
  await session.moveTo(null);
  release();
  await expect(run).rejects.toMatchObject({ code: "moved" });
});

test("a compaction requested during a run waits for its turn", async () => {
  const { url } = await server({
    reply: ({ body }, n) =>
      JSON.stringify(body).includes("You tend") && n < 8
        ? toolReply([{ name: "list_files", input: {} }], { text: "I look. ".repeat(200) })
        : textReply("Done."),
  });
  const open = {
    compaction: { keepRecentTokens: 200 },
    summarizer: extractiveSummarizer(),
  };
  const { agent, session, events } = await stage({ url, open });
  const run = agent.run("Look around.");
  await until(() => events.filter(({ type }) => type === "tool_end").length === 4);
  const result = await agent.forceCompact();
  expect(result).toMatchObject({ success: true });
  expect(result.freedTokens).toBeGreaterThan(0);
  expect(await run).toMatchObject({ stopReason: "stop" });
  expect(entriesOf(session.file).filter(({ type }) => type === "compaction")).toHaveLength(1);
});
