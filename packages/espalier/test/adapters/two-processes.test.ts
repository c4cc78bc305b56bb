// Two real processes on one session, by each adapter.
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { emptyCheckpoint } from "@langchain/langgraph-checkpoint";
import { build } from "esbuild";
import { claudeSessionStore } from "espalier/adapters/claude-agent-sdk";
import { EspalierSaver } from "espalier/adapters/langgraph";
import { openaiSessions } from "espalier/adapters/openai-agents";
import { SessionManager } from "espalier/adapters/pi";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";

const folder = mkdtempSync(join(tmpdir(), "espalier-two-processes-"));
const program = join(folder, "writer.mjs");
afterAll(() => rmSync(folder, { recursive: true, force: true }));
beforeAll(() =>
  build({
    entryPoints: [fileURLToPath(new URL("writer.ts", import.meta.url))],
    bundle: true,
    platform: "node",
    format: "esm",
    outfile: program,
    banner: { js: "import{createRequire as r}from'node:module';const require=r(import.meta.url);" },
  }),
);

/** Milliseconds that no test takes. */
const LONG = 600_000;

/** Another process. `write` resolves with its answer. */
function startWriter(host: string, options: object) {
  const child: ChildProcess = spawn(process.execPath, [program, host, JSON.stringify(options)], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await ended;
  });
  const answers = createInterface(child.stdout!)[Symbol.asyncIterator]();
  return {
    pid: child.pid!,
    async write(text: string): Promise<string | undefined> {
      child.stdin!.write(`${text}\n`);
      return (await answers.next()).value;
    },
    async kill() {
      child.kill("SIGKILL");
      await ended;
    },
  };
}

/** The texts in the session of a home, in order. */
const readers: Record<string, (home: string) => Promise<(string | undefined)[]>> = {
  async langgraph(home) {
    const saver = new EspalierSaver({ home });
    const tuple = await saver.getTuple({ configurable: { thread_id: "shared" } });
    await saver.close();
    return (tuple?.pendingWrites ?? []).map(([, , value]) => value as string);
  },
  async claude(home) {
    const store = claudeSessionStore({ home });
    const lines = await store.load({ projectKey: "garden", sessionId: "shared" });
    await store.close();
    return (lines ?? []).map(({ uuid }) => uuid);
  },
  async openai(home) {
    const sessions = openaiSessions({ home });
    const items = await sessions.session("shared").getItems();
    await sessions.close();
    return items.map((item) => (item as { content: string }).content);
  },
};

/** A home in which the thread of LangGraph has a checkpoint to write to. */
async function freshHome(host: string): Promise<string> {
  const home = mkdtempSync(join(folder, "home-"));
  if (host !== "langgraph") return home;
  const saver = new EspalierSaver({ home });
  const metadata = { source: "input", step: -1, parents: {} } as const;
  const config = { configurable: { thread_id: "shared" } };
  await saver.put(config, { ...emptyCheckpoint(), id: "first" }, metadata, {});
  await saver.close();
  return home;
}

test.each(Object.keys(readers))(
  "%s: two processes take turns, and every write is kept once",
  async (host) => {
    const home = await freshHome(host);
    const writers = ["a", "b"].map((name) => ({ name, ...startWriter(host, { home, idleMs: 0 }) }));
    const texts = writers.map(({ name }) => Array.from({ length: 8 }, (_, at) => `${name}${at}`));
    const writing = writers.map(async ({ write }, at) => {
      for (const text of texts[at]!) expect(await write(text)).toBe(`done ${text}`);
    });
    await Promise.all(writing);
    const kept = await readers[host]!(home);
    expect([...kept].sort()).toEqual(texts.flat());
    if (host === "langgraph") return; // sorted by task
    for (const [at, { name }] of writers.entries())
      expect(kept.filter((text) => text!.startsWith(name))).toEqual(texts[at]);
  },
);

test.each(Object.keys(readers))(
  "%s: a process waits for another one that holds the session, and names it if the wait ends",
  async (host) => {
    const home = await freshHome(host);
    const holder = startWriter(host, { home, idleMs: LONG });
    expect(await holder.write("held")).toBe("done held");
    const impatient = startWriter(host, { home, waitMs: 0 });
    const refused = await impatient.write("refused");
    expect(refused).toMatch(/^busy: \S.{10,300}\.$/);
    expect(refused).toContain(String(holder.pid));
    const waiter = startWriter(host, { home, waitMs: LONG });
    const waiting = waiter.write("waited");
    expect(await holder.write("close")).toBe("done close");
    expect(await waiting).toBe("done waited");
    await waiter.write("close");
    expect([...(await readers[host]!(home))].sort()).toEqual(["held", "waited"]);
  },
);

test("pi: a process is refused in one sentence while another one writes the file, and writes after its end", async () => {
  const home = mkdtempSync(join(folder, "home-"));
  const [holder, other] = [startWriter("pi", { home }), startWriter("pi", { home })];
  expect(await holder.write("held")).toBe("done held");
  const refused = await other.write("refused");
  expect(refused).toMatch(/^busy: \S.{10,300}\.$/);
  expect(refused).toContain(String(holder.pid));
  await holder.kill();
  expect(await other.write("after")).toBe("done after");
  await other.write("close");
  using session = SessionManager.open<SessionManager>(join(home, "shared.jsonl"));
  const texts = session
    .getEntries()
    .map((entry) => (entry as { message?: { content: string } }).message?.content);
  expect(texts).toEqual(["held", "after"]);
});
