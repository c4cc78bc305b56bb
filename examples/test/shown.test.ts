// A session of each host, in `espalier tree` and in an HTML export that a browser opens.
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { hasBrowser, startBrowser, watchedPage } from "@espalier/viewer/testing";
import { AIMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";
import { END, MessagesAnnotation, START, StateGraph } from "@langchain/langgraph";
import type { AgentInputItem } from "@openai/agents";
import { claudeSessionStore } from "espalier/adapters/claude-agent-sdk";
import { EspalierSaver } from "espalier/adapters/langgraph";
import { openaiSessions } from "espalier/adapters/openai-agents";
import { SessionManager } from "espalier/adapters/pi";
import { afterAll, expect, onTestFinished, test } from "vitest";

const home = mkdtempSync(join(tmpdir(), "espalier-shown-"));
afterAll(() => rmSync(home, { recursive: true, force: true }));

const QUESTION = "What grows in the north?";
const ANSWER = "Ripe pears grow there.";
const RESULT = "Pears, planted in 1987.";
const args = { bed: "north" };

/** Makes a session in which a model calls a tool and answers; returns its id or its file. */
const hosts: Record<string, () => Promise<string>> = {
  async langgraph() {
    const checkpointer = new EspalierSaver({ home });
    const call = new AIMessage({ id: "a1", content: "", tool_calls: [{ id: "c1", name: "look", args }] });
    const result = new ToolMessage({ id: "r1", content: RESULT, name: "look", tool_call_id: "c1" });
    const graph = new StateGraph(MessagesAnnotation)
      .addNode("model", ({ messages }) => ({
        messages: [messages.length === 1 ? call : new AIMessage({ id: "a2", content: ANSWER })],
      }))
      .addNode("tools", () => ({ messages: [result] }))
      .addEdge(START, "model")
      .addConditionalEdges("model", ({ messages }) => (messages.length === 2 ? "tools" : END))
      .addEdge("tools", "model")
      .compile({ checkpointer });
    const prompt = new HumanMessage({ id: "u1", content: QUESTION });
    await graph.invoke({ messages: [prompt] }, { configurable: { thread_id: "graph" } });
    await checkpointer.close();
    return "graph";
  },
  async claude() {
    const store = claudeSessionStore({ home });
    const key = { projectKey: "garden", sessionId: "claude" };
    let parentUuid: string | null = null;
    const line = (uuid: string, type: string, message: object) => {
      const made = { type, uuid, parentUuid, timestamp: "2026-01-01T00:00:00.000Z", message };
      parentUuid = uuid;
      return made;
    };
    const answered = { role: "assistant", model: "claude-haiku-4-5" };
    await store.append(key, [
      line("u1", "user", { role: "user", content: QUESTION }),
      line("a1", "assistant", {
        ...answered,
        id: "m1",
        content: [{ type: "tool_use", id: "c1", name: "look", input: args }],
      }),
      line("r1", "user", {
        role: "user",
        content: [{ type: "tool_result", tool_use_id: "c1", content: RESULT }],
      }),
      line("a2", "assistant", { ...answered, id: "m2", content: [{ type: "text", text: ANSWER }] }),
      { type: "custom-title", customTitle: "The north bed" },
    ]);
    await store.close();
    return store.sessionId(key);
  },
  async openai() {
    const sessions = openaiSessions({ home });
    const output = { type: "text", text: RESULT } as const;
    const items: AgentInputItem[] = [
      { role: "user", content: QUESTION },
      { type: "function_call", callId: "c1", name: "look", arguments: JSON.stringify(args) },
      { type: "function_call_result", callId: "c1", name: "look", status: "completed", output },
      {
        type: "message",
        role: "assistant",
        status: "completed",
        content: [{ type: "output_text", text: ANSWER }],
      },
    ];
    await sessions.session("openai").addItems(items);
    await sessions.close();
    return "openai";
  },
  async pi() {
    const manager: SessionManager = SessionManager.create("/garden", join(home, "pi"));
    const said = { role: "assistant", api: "a", provider: "p", model: "m", timestamp: 1 } as const;
    manager.appendMessage({ role: "user", content: QUESTION, timestamp: 1 });
    const call = { type: "toolCall", id: "c1", name: "look", arguments: args } as const;
    manager.appendMessage({ ...said, stopReason: "toolUse", content: [call] });
    manager.appendMessage({
      role: "toolResult",
      toolCallId: "c1",
      toolName: "look",
      content: [{ type: "text", text: RESULT }],
      isError: false,
      timestamp: 1,
    });
    manager.appendMessage({ ...said, stopReason: "stop", content: [{ type: "text", text: ANSWER }] });
    manager.appendSessionInfo("The north bed");
    manager.close();
    return manager.getSessionFile()!;
  },
};

/** Names of the sessions; a session without a name is headed by its first prompt. */
const NAMES: Record<string, string> = { claude: "The north bed", pi: "The north bed" };

const command = join(import.meta.dirname, "../../scripts/espalier.mjs");
const espalier = (...given: string[]) =>
  execFileSync(process.execPath, [command, ...given], {
    encoding: "utf8",
    env: { ...process.env, ESPALIER_HOME: home },
  });

test.each(Object.keys(hosts))("a session of %s has its name and its texts in tree and page", async (host) => {
  const session = await hosts[host]!();
  const shown = espalier("tree", session, "--all");
  for (const text of [QUESTION, "look(north)", RESULT, ANSWER, NAMES[host] ?? QUESTION])
    expect(shown).toContain(text);
  const page = join(home, `${host}.html`);
  espalier("export", session, "--format", "html", "--out", page);
  if (!hasBrowser) return;
  const browser = await startBrowser();
  onTestFinished(() => browser.close());
  const watched = await watchedPage(browser);
  await watched.page.goto(pathToFileURL(page).href);
  for (const text of [NAMES[host] ?? QUESTION, QUESTION, RESULT, ANSWER])
    await watched.page.getByText(text).first().waitFor({ state: "attached" });
  expect(watched.troubles).toEqual([]);
});
