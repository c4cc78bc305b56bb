import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { simulateReadableStream } from "ai";
import { MockLanguageModelV3 } from "ai/test";
import { openSession } from "espalier";
import { type ReplyBlock, startMessagesServer, startOpenaiServer, textReply } from "espalier/testing";
import { afterAll, expect, test, vi } from "vitest";

const home = mkdtempSync(join(tmpdir(), "espalier-example-"));
const thoughts: ReplyBlock[] = [
  { type: "thinking", thinking: "Hm.", signature: "c2lnbmVk" },
  { type: "redacted_thinking", data: "b3BhcXVl" },
];
const claude = await startMessagesServer({
  reply: (_, n) =>
    n % 2 === 1
      ? {
          kind: "message",
          content: [...thoughts, { type: "tool_use", id: `c${n}`, name: "look", input: {} }],
        }
      : textReply("Pears."),
});
const gpt = await startOpenaiServer((_, n) =>
  n % 2 === 1 ? { calls: [{ id: `c${n}`, name: "look", input: { bed: "north" } }] } : { text: "Pears." },
);
process.env["ESPALIER_HOME"] = home;
process.env["ANTHROPIC_API_KEY"] = "test";
process.env["ANTHROPIC_BASE_URL"] = claude.url;
process.env["OPENAI_API_KEY"] = "test";
process.env["OPENAI_BASE_URL"] = gpt.url;
vi.spyOn(process.stdout, "write").mockImplementation(() => true);
afterAll(async () => {
  vi.restoreAllMocks();
  await claude.close();
  await gpt.close();
  rmSync(home, { recursive: true, force: true });
});

/** A model of the AI SDK that calls the tool, then answers. */
function scriptedLanguageModel(): MockLanguageModelV3 {
  let asked = 0;
  const usage = {
    inputTokens: { total: 10, noCache: 10, cacheRead: 0, cacheWrite: 0 },
    outputTokens: { total: 10, text: 10, reasoning: 0 },
  };
  return new MockLanguageModelV3({
    doStream: async () => {
      const isCall = ++asked % 2 === 1;
      const said = isCall
        ? [{ type: "tool-call" as const, toolCallId: `c${asked}`, toolName: "look", input: "{}" }]
        : [
            { type: "text-start" as const, id: "t" },
            { type: "text-delta" as const, id: "t", delta: "Pears." },
            { type: "text-end" as const, id: "t" },
          ];
      const unified = isCall ? ("tool-calls" as const) : ("stop" as const);
      const finish = { type: "finish" as const, usage, finishReason: { unified, raw: "x" } };
      return { stream: simulateReadableStream({ chunks: [...said, finish] }) };
    },
  });
}

const languageModel = scriptedLanguageModel();
const agents: [string, (prompt: string) => Promise<string>][] = [
  ["10-agent-anthropic", async (prompt) => (await import("../10-agent-anthropic.ts")).ask("claude", prompt)],
  ["11-agent-openai", async (prompt) => (await import("../11-agent-openai.ts")).ask("chat", prompt)],
  [
    "12-agent-responses",
    async (prompt) => (await import("../12-agent-responses.ts")).ask("responses", prompt),
  ],
  [
    "13-agent-ai-sdk",
    async (prompt) => (await import("../13-agent-ai-sdk.ts")).ask("ai-sdk", prompt, languageModel),
  ],
];
const sessionIds = ["claude", "chat", "responses", "ai-sdk"];

test.each(agents)("%s talks, uses its tool, and stores everything in the session", async (name, ask) => {
  expect(await ask("What grows here?")).toBe("Pears.");
  expect(await ask("And now?")).toBe("Pears.");
  const id = sessionIds[agents.findIndex(([each]) => each === name)]!;
  const session = await openSession(id, { mode: "read" });
  const turn = ["user", "assistant", "toolResult", "assistant"];
  expect(session.context.messages.map(({ role }) => role)).toEqual([...turn, ...turn]);
  await session.close();
});

test("every request was valid, and the model's thinking is sent back to it", () => {
  expect(claude.requests.flatMap(({ problems }) => problems)).toEqual([]);
  expect(gpt.requests.flatMap(({ problems }) => problems)).toEqual([]);
  const sent = JSON.stringify(claude.requests.at(-1)!.body);
  expect(sent).toContain("c2lnbmVk");
  expect(sent).toContain("b3BhcXVl");
});

test("thinking is not sent to another model", async () => {
  const { ask } = await import("../10-agent-anthropic.ts");
  const before = claude.requests.length;
  expect(await ask("claude", "And what else?", "claude-sonnet-4-5")).toBe("Pears.");
  const [first, second] = claude.requests.slice(before);
  expect(first!.body["model"]).toBe("claude-sonnet-4-5");
  expect(JSON.stringify(first!.body)).not.toContain("c2lnbmVk");
  expect(JSON.stringify(second!.body)).toContain("c2lnbmVk");
});

test.each(agents.slice(0, 3))("%s can be asked again after an error", async (_, ask) => {
  const refusing = createServer((_, answer) => answer.writeHead(401).end("{}")).listen(0, "127.0.0.1");
  await once(refusing, "listening");
  const { ANTHROPIC_BASE_URL, OPENAI_BASE_URL } = process.env;
  const url = `http://127.0.0.1:${(refusing.address() as AddressInfo).port}`;
  Object.assign(process.env, { ANTHROPIC_BASE_URL: url, OPENAI_BASE_URL: url });
  await expect(ask("Are you there?")).rejects.toThrow(/401/);
  Object.assign(process.env, { ANTHROPIC_BASE_URL, OPENAI_BASE_URL });
  refusing.close();
  expect(await ask("And now?")).toBe("Pears.");
});

const root = join(import.meta.dirname, "../..");

test.each(agents)("%s has at most 25 lines, blank ones not counted", (name) => {
  const lines = readFileSync(join(root, `examples/${name}.ts`), "utf8").split("\n");
  expect(lines.filter((line) => line.trim() !== "").length).toBeLessThanOrEqual(25);
});

test("the guide shows the first one and its tool unchanged", () => {
  const guide = readFileSync(join(root, "docs/guides/put-it-under-your-agent.md"), "utf8");
  for (const name of ["10-agent-anthropic", "garden"]) {
    const example = readFileSync(join(root, `examples/${name}.ts`), "utf8");
    expect(guide).toContain(`\`\`\`ts\n${example}\`\`\``);
  }
});
