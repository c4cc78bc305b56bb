// The package for Pi, in the real Pi of the registry: headless, with a scripted model on the loopback interface.
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { espalier, espalierJson, temporaryFolder } from "./espalier.ts";

/** Pi needs Node 22.19. npx fetches Node 24, and 0.87.1, the newest Pi whose parts are all in the registry. */
const PACKAGES = ["node@24", "@earendil-works/pi-coding-agent@0.87.1"].map((name) => `--package=${name}`);

/** Installs Pi and Node 24. False where npx cannot get them. */
function hasPi(): boolean {
  try {
    execFileSync("npx", ["--yes", ...PACKAGES, "node", "--version"], { stdio: "pipe", timeout: 280_000 });
    return true;
  } catch {
    return false;
  }
}
const isPiThere = hasPi();
const whySkipped = isPiThere ? "" : " (skipped: npx cannot get Pi or Node 24 here)";

type Message = { role: string; content: unknown };

const textOf = ({ content }: Message): string =>
  typeof content === "string" ? content : JSON.stringify(content);

/** Calls `recall` for a question with that word, repeats what a tool returned, and answers everything else at length. */
function answerTo(messages: readonly Message[]): { call?: string; text: string } {
  const last = messages.at(-1)!;
  if (last.role === "tool") return { text: `I found: ${textOf(last)}` };
  const query = /recall (\w+)/.exec(textOf(last))?.[1];
  return query === undefined ? { text: `Noted. ${"pears ".repeat(40)}` } : { call: query, text: "" };
}

let server: Server;
let baseUrl = "";
beforeAll(async () => {
  server = createServer(async (request, response) => {
    let body = "";
    for await (const piece of request) body += piece;
    const { call, text } = answerTo(JSON.parse(body).messages);
    response.writeHead(200, { "content-type": "text/event-stream" });
    const send = (rest: object) =>
      response.write(
        `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 1, model: "m", ...rest })}\n\n`,
      );
    const delta =
      call === undefined
        ? { role: "assistant", content: text }
        : {
            role: "assistant",
            tool_calls: [
              {
                index: 0,
                id: "call_1",
                type: "function",
                function: { name: "recall", arguments: JSON.stringify({ query: call }) },
              },
            ],
          };
    send({ choices: [{ index: 0, delta, finish_reason: null }] });
    send({ choices: [{ index: 0, delta: {}, finish_reason: call === undefined ? "stop" : "tool_calls" }] });
    send({ choices: [], usage: { prompt_tokens: 100, completion_tokens: 20, total_tokens: 120 } });
    response.end("data: [DONE]\n\n");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
});
afterAll(() => server?.close());

/** A home with Pi's settings and the package in them; `/goto ID` moves the leaf, as Pi's own tree does for a person. */
async function homeWithPackage() {
  const home = temporaryFolder();
  const agent = join(home, "pi");
  for (const folder of [agent, join(home, "work")]) mkdirSync(folder);
  const model = {
    id: "scripted",
    name: "Scripted",
    reasoning: false,
    input: ["text"],
    contextWindow: 100_000,
    maxTokens: 4_000,
  };
  const cost = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 };
  const scripted = { baseUrl, api: "openai-completions", apiKey: "none", models: [{ ...model, cost }] };
  writeFileSync(join(agent, "models.json"), JSON.stringify({ providers: { scripted } }));
  const settings = { compaction: { enabled: true, reserveTokens: 16_384, keepRecentTokens: 300 } };
  writeFileSync(join(agent, "settings.json"), JSON.stringify(settings));
  writeFileSync(
    join(home, "goto.js"),
    `export default (pi) => pi.registerCommand("goto", {
      description: "move the leaf",
      handler: async (words, ctx) => {
        const [id, how] = words.trim().split(" ");
        await ctx.navigateTree(id, { summarize: how === "summarize" });
        ctx.ui.notify("leaf " + ctx.sessionManager.getLeafId());
      },
    });`,
  );
  const env = { HOME: home, ESPALIER_HOME: join(home, ".espalier"), PI_CODING_AGENT_DIR: agent };
  expect(await espalier(["install", "pi"], { env })).toMatchObject({ code: 0, stderr: "" });
  return { home, agent, env };
}

type Said = Record<string, unknown> & { type: string };

/** Pi in RPC mode. */
function startPi(home: string, env: Record<string, string>) {
  const words = [
    "pi",
    "--mode",
    "rpc",
    "--provider",
    "scripted",
    "--model",
    "scripted",
    "-e",
    join(home, "goto.js"),
  ];
  const child = spawn("npx", ["--yes", ...PACKAGES, ...words], {
    cwd: join(home, "work"),
    env: { ...process.env, ...env, PI_OFFLINE: "1" },
    stdio: ["pipe", "pipe", "ignore"],
  });
  const closed = new Promise<void>((resolve) => child.on("close", () => resolve()));
  const waiting = new Set<(said: Said) => void>();
  let rest = "";
  child.stdout.on("data", (data) => {
    const lines = `${rest}${data}`.split("\n");
    rest = lines.pop()!;
    for (const line of lines.filter(Boolean)) for (const hear of waiting) hear(JSON.parse(line));
  });
  const next = (isMeant: (said: Said) => boolean) =>
    new Promise<Said>((resolve, reject) => {
      const hear = (said: Said) => {
        if (!isMeant(said)) return;
        waiting.delete(hear);
        resolve(said);
      };
      waiting.add(hear);
      void closed.then(() => reject(new Error("Pi ended.")));
    });
  let asked = 0;
  const ask = async (command: object): Promise<Said> => {
    const id = `r${asked++}`;
    const answer = next((said) => said.type === "response" && said["id"] === id);
    child.stdin.write(`${JSON.stringify({ id, ...command })}\n`);
    return answer;
  };
  return {
    ask,
    /** Prompts, and waits until the agent is done. */
    async prompt(message: string) {
      const settled = next(({ type }) => type === "agent_settled");
      await ask({ type: "prompt", message });
      await settled;
    },
    /** Runs a command of an extension; what it told the user. */
    async run(message: string): Promise<string> {
      const told = next(({ type, method }) => type === "extension_ui_request" && method === "notify");
      await ask({ type: "prompt", message });
      return String((await told)["message"]);
    },
    async end() {
      child.stdin.end();
      await closed;
    },
  };
}

const sessionFile = (agent: string): string => {
  const folder = join(agent, "sessions");
  const found = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((path) =>
    path.endsWith(".jsonl"),
  );
  expect(found).toHaveLength(1);
  return join(folder, found[0]!);
};

type Line = {
  type: string;
  id: string;
  parentId: string | null;
  summary?: string;
  details?: Record<string, unknown>;
} & Record<string, unknown>;
const linesOf = (file: string): Line[] =>
  readFileSync(file, "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));

test.skipIf(!isPiThere)(
  `Pi compacts, recalls, compares, merges and pins with the package${whySkipped}`,
  async () => {
    const { home, agent, env } = await homeWithPackage();
    const pi = startPi(home, env);
    try {
      const { data } = (await pi.ask({ type: "get_commands" })) as {
        data?: { commands: { name: string }[] };
      };
      const names = data!.commands.map(({ name }) => name);
      for (const name of ["diff", "merge", "doctor", "pin", "rules"]) expect(names).toContain(name);

      await pi.prompt(`Never push to main. The quince grows behind the shed. ${"earth ".repeat(3_000)}`);
      await pi.prompt(`Prune the pear tree. ${"leaf ".repeat(30)}`);
      const file = sessionFile(agent);
      const idOf = (part: string) => linesOf(file).find((line) => JSON.stringify(line).includes(part))!.id;
      expect(await pi.run("/rules")).toBe("- Never push to main");
      expect(await pi.run("/doctor")).toMatch(/^Sound: \d+ entries in /);
      expect(await pi.run("/pin")).toMatch(/^Nothing is pinned here/);

      // A branch that is left without a summary, compared, and then merged.
      const fork = linesOf(file).findLast(({ type }) => type === "message")!.id;
      await pi.prompt(`Try the medlar instead. ${"fruit ".repeat(50)}`);
      const aside = linesOf(file).findLast(({ type }) => type === "message")!.id;
      expect(await pi.run(`/goto ${fork}`)).toBe(`leaf ${fork}`);
      await pi.prompt(`Water the pear tree. ${"water ".repeat(3_000)}`);
      expect(await pi.run(`/pin ${idOf("Prune the pear")}`)).toMatch(/is pinned\.$/);
      expect(await pi.run("/pin nowhere")).toMatch(/nowhere/);
      const difference = await pi.run(`/diff ${aside}`);
      expect(difference).toContain(`Last common entry: ${fork}`);
      expect(difference).toMatch(new RegExp(`^${aside}: 2 entries, 2 messages`, "m"));
      expect(await pi.run(`/merge ${aside}`)).toBe(`The branch of ${aside} is summarized into this one.`);
      const merged = linesOf(file).findLast(({ type }) => type === "branch_summary")!;
      expect(merged.summary).toContain("medlar");
      expect(merged.details?.["merge"]).toMatchObject({ commonAncestorId: fork });
      expect(await pi.run(`/merge ${aside}`)).toBe(`The branch of ${aside} is already merged.`);

      // A compaction: our policy, an extractive summary, the rule and the pin.
      await pi.prompt("And the roses?");
      expect(await pi.ask({ type: "compact" })).toMatchObject({ success: true });
      const compaction = linesOf(file).findLast(({ type }) => type === "compaction")!;
      expect(compaction).toMatchObject({
        fromHook: true,
        details: { policy: "token-budget", source: "extractive" },
      });
      expect(compaction.summary).toMatch(/<rules>\n[^<]*- Never push to main\n<\/rules>/);
      expect(compaction.summary).toMatch(/<pinned>\n.*Prune the pear tree/s);

      // What only the compacted part has comes back by the tool, as data.
      await pi.prompt("Please recall quince for me.");
      const answer = JSON.stringify(linesOf(file).findLast(({ type }) => type === "message"));
      expect(answer).toContain("<session-data");
      expect(answer).toContain("The quince grows behind the shed");

      // Leaving a branch with a summary: ours too.
      expect(await pi.run(`/goto ${aside} summarize`)).toMatch(/^leaf /);
      const left = linesOf(file).findLast(({ type }) => type === "branch_summary")!;
      expect(left).toMatchObject({ fromHook: true, parentId: aside });
      expect(left.summary).toMatch(/roses|Water the pear/);

      await pi.end();
      // Espalier reads the file that Pi wrote.
      const { value } = await espalierJson(["doctor", file], { env });
      expect(value).toMatchObject({ ok: true });
      expect(linesOf(file).filter(({ customType }) => customType === "espalier.pin")).toHaveLength(1);
    } finally {
      await pi.end();
    }
  },
  300_000,
);

test.skipIf(!isPiThere)(
  `Pi starts as before when the package was removed${whySkipped}`,
  async () => {
    const { home, agent, env } = await homeWithPackage();
    expect((await espalier(["uninstall", "pi"], { env })).code).toBe(0);
    const settings = { compaction: { enabled: true, reserveTokens: 16_384, keepRecentTokens: 300 } };
    expect(readFileSync(join(agent, "settings.json"), "utf8")).toBe(JSON.stringify(settings));
    const pi = startPi(home, env);
    const { data } = (await pi.ask({ type: "get_commands" })) as { data?: { commands: { name: string }[] } };
    expect(data!.commands.map(({ name }) => name)).not.toContain("merge");
    await pi.end();
    rmSync(home, { recursive: true, force: true });
  },
  300_000,
);
