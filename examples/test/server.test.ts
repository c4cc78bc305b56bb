import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { buildSync } from "esbuild";
import { openSession } from "espalier";
import { startMessagesServer, textReply, toolReply } from "espalier/testing";
import { afterAll, expect, test, vi } from "vitest";

/** Far more than it takes: other tests run beside. */
vi.setConfig({ testTimeout: 120_000 });

const folder = mkdtempSync(join(tmpdir(), "espalier-server-"));
const home = join(folder, "home");
const program = join(folder, "server.mjs");
buildSync({
  entryPoints: [join(import.meta.dirname, "../20-server.ts")],
  bundle: true,
  platform: "node",
  format: "esm",
  outfile: program,
  banner: { js: "import{createRequire as r}from'node:module';const require=r(import.meta.url);" },
});

/** Called for each request to the model, before it is answered. */
let onRequest: (n: number) => void = () => {};
const model = await startMessagesServer({
  async reply({ body }, n) {
    onRequest(n);
    await setTimeout(30);
    const last = (body["messages"] as { content: unknown }[]).at(-1)!;
    return JSON.stringify(last.content).includes("tool_result")
      ? textReply("Pears.")
      : toolReply([{ id: `c${n}`, name: "look", input: {} }]);
  },
});

interface Running {
  child: ChildProcess;
  url: string;
}
let running: Running | undefined;
async function start(): Promise<Running> {
  const child = spawn(process.execPath, [program], {
    env: {
      ...process.env,
      ESPALIER_HOME: home,
      ESPALIER_STORE: "",
      ANTHROPIC_API_KEY: "test",
      ANTHROPIC_BASE_URL: model.url,
      PORT: "0",
    },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [said] = (await once(child.stdout!, "data")) as [Buffer];
  running = { child, url: `http://127.0.0.1:${/port: (\d+)/.exec(said.toString())![1]}` };
  return running;
}
async function end({ child }: Running, signal: NodeJS.Signals): Promise<number | null> {
  const closed = once(child, "close");
  child.kill(signal);
  return (await closed)[0] as number | null;
}
const put = async ({ url }: Running, path: string, body: string) => {
  const response = await fetch(`${url}/${path}`, { method: "PUT", body });
  return { status: response.status, text: await response.text() };
};
afterAll(async () => {
  if (running?.child.exitCode === null) await end(running, "SIGKILL");
  await model.close();
  rmSync(folder, { recursive: true });
});

const MOMENTS = [
  ...["as the first request to the model comes", "as the request with the tool's result comes"],
  ...[5, 20, 40, 60, 80, 100].map((ms) => `${ms} ms after the message`),
];

test.each(MOMENTS)(
  "killed %s, a server that gets the request again stores the message once, and answers",
  async (moment) => {
    const at = MOMENTS.indexOf(moment);
    const user = `user-${at}`;
    const first = await start();
    const before = model.requests.length;
    const killed = new Promise<void>((resolve) => {
      const kill = () => void end(first, "SIGKILL").then(() => resolve());
      if (at < 2) onRequest = (n) => n === before + at + 1 && kill();
      else void setTimeout(Number.parseInt(moment, 10)).then(kill);
    });
    const lost = put(first, `${user}/m1`, "What grows here?").catch(() => undefined);
    await killed;
    onRequest = () => {};
    // Where the kill came too late, there was an answer.
    expect([undefined, 200]).toContain((await lost)?.status);
    const second = await start();
    const answers = await Promise.all([
      put(second, `${user}/m1`, "What grows here?"),
      put(second, `${user}/m1`, "What grows here?"),
      put(second, `${user}-b/m1`, "And for me?"),
    ]);
    expect(answers).toEqual(Array(3).fill({ status: 200, text: "Pears." }));
    expect(await put(second, `${user}/m2`, "And now?")).toEqual({ status: 200, text: "Pears." });
    expect(await put(second, `${user}/m1`, "What grows here?")).toEqual({ status: 200, text: "Pears." });
    expect(await end(second, "SIGTERM")).toBe(0);
    const session = await openSession(user, { home, mode: "read" });
    const roles = session.context.messages.map(({ role }) => role);
    expect(roles.filter((role) => role === "user")).toHaveLength(2);
    expect(roles.at(-1)).toBe("assistant");
    expect(session.branches()).toHaveLength(1);
    await session.close();
    expect(model.requests.flatMap(({ problems }) => problems)).toEqual([]);
    // A kill between the write and the rename of a lease leaves its draft. It is nobody's lease, and goes with the session.
    const left = readdirSync(join(session.file, "..")).filter((name) => /\.lease(?!.*\.tmp$)/.test(name));
    expect(left).toEqual([]);
  },
);

test("an invalid message is refused", async () => {
  const server = await start();
  expect(await put(server, "ada", "What grows here?")).toMatchObject({ status: 404 });
  expect(await end(server, "SIGTERM")).toBe(0);
});
