// A headless host of Pi's SDK with a scripted model, on our manager: prompts, a tool, a branch that is left, a compaction.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { SessionManager } from "../../../src/adapters/pi.ts";
import { packageOfPi } from "./package-of-pi.ts";
import { tell } from "./play.ts";

const [folder, output] = process.argv.slice(2) as [string, string];
const load = (path: string) => import(pathToFileURL(join(packageOfPi(), path)).href);
const { createAgentSession, SettingsManager, SessionManager: Theirs } = await load("dist/index.js");
const { createAssistantMessageEventStream } = await load("../pi-ai/dist/utils/event-stream.js");

const [cwd, agentDir] = [join(folder, "work"), join(folder, "agent")];
for (const each of [cwd, agentDir]) mkdirSync(each, { recursive: true });
writeFileSync(join(cwd, "garden.txt"), "Pears are ripe.");
const model = {
  ...{ id: "scripted", name: "Scripted", api: "openai-completions", provider: "scripted", reasoning: false },
  ...{ baseUrl: "http://127.0.0.1:9", input: ["text"], contextWindow: 100_000, maxTokens: 4_000 },
  cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 },
};
const { api, baseUrl, provider, ...listed } = model;
const providers = { scripted: { baseUrl, api, apiKey: "none", models: [listed] } };
writeFileSync(join(agentDir, "models.json"), JSON.stringify({ providers }));

const sessionManager = SessionManager.create<SessionManager>(cwd, join(folder, "sessions"));
const settings = { compaction: { enabled: true, reserveTokens: 1_000, keepRecentTokens: 20 } };
const { session } = await createAgentSession({
  cwd,
  agentDir,
  model,
  sessionManager,
  settingsManager: SettingsManager.inMemory(settings),
  tools: ["read"],
});

/** Calls a tool for a question about the garden, and answers everything else. */
session.agent.streamFunction = async (
  _: unknown,
  context: { messages: { role: string; content: unknown }[] },
) => {
  const last = context.messages.at(-1)!;
  const isQuestion = last.role === "user" && JSON.stringify(last.content).includes("garden.txt");
  const calls = isQuestion && !JSON.stringify(context).includes("<conversation>");
  const content = calls
    ? [{ type: "toolCall", id: "call_1", name: "read", arguments: { path: "garden.txt" } }]
    : [{ type: "text", text: `Answer ${context.messages.length}: ${"pears ".repeat(20)}` }];
  const usage = { input: 10, output: 5, cacheRead: 0, cacheWrite: 0, totalTokens: 15, cost: model.cost };
  const message = {
    ...{
      role: "assistant",
      content,
      api,
      provider,
      model: model.id,
      usage: { ...usage, cost: { ...model.cost, total: 0 } },
    },
    ...{ stopReason: calls ? "toolUse" : "stop", timestamp: Date.now() },
  };
  const stream = createAssistantMessageEventStream();
  queueMicrotask(() => {
    stream.push({ type: "start", partial: message });
    stream.push({ type: "done", reason: message.stopReason, message });
  });
  return stream;
};

await session.prompt("What does garden.txt say?");
const answered = sessionManager.getLeafId()!;
await session.prompt("Cut the pear tree.");
await session.navigateTree(answered, { summarize: true, label: "before the cut" });
await session.prompt("Water the pear tree.");
session.setSessionName("The garden");
await session.compact("Keep the garden.");
await session.prompt("Is it done?");
await sessionManager.flush();
const file = sessionManager.getSessionFile()!;
const messages = session.messages.map(({ role }: { role: string }) => role);
const read = Theirs.open(file);
writeFileSync(output, JSON.stringify({ file, messages, ours: tell(sessionManager), theirs: tell(read) }));
session.dispose();
