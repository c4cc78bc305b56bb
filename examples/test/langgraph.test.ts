import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { AIMessage } from "@langchain/core/messages";
import { openSession } from "espalier";
import { afterAll, expect, test } from "vitest";

const home = mkdtempSync(join(tmpdir(), "espalier-example-"));
process.env["ESPALIER_HOME"] = home;
afterAll(() => rmSync(home, { recursive: true, force: true }));

/** A model of LangChain that calls the tool, then answers. */
class ScriptedModel extends BaseChatModel {
  readonly offered: unknown[] = [];
  #asked = 0;

  constructor() {
    super({});
  }

  override _llmType() {
    return "scripted";
  }

  override bindTools(tools: unknown[]) {
    this.offered.push(...tools);
    return this;
  }

  override async _generate() {
    const isCall = ++this.#asked % 2 === 1;
    const tool_calls = [{ id: `c${this.#asked}`, name: "look", args: { bed: "north" } }];
    const message = new AIMessage(isCall ? { content: "", tool_calls } : "Pears.");
    return { generations: [{ text: "", message }] };
  }
}

test("30-langgraph talks, uses its tool, and stores everything in the session", async () => {
  const { ask } = await import("../30-langgraph.ts");
  const model = new ScriptedModel();
  expect(await ask("graph", "What grows here?", model)).toBe("Pears.");
  expect(await ask("graph", "And now?", model)).toBe("Pears.");
  expect(model.offered).toHaveLength(2);
  const session = await openSession("graph", { mode: "read" });
  const turn = ["user", "assistant", "toolResult", "assistant"];
  expect(session.context.messages.map(({ role }) => role)).toEqual([...turn, ...turn]);
  expect(session.branches()).toHaveLength(1);
  await session.close();
});

test("the tree of the thread shows the role of each message, and the steps", () => {
  const command = join(import.meta.dirname, "../../scripts/espalier.mjs");
  const { stdout, stderr } = spawnSync(process.execPath, [command, "tree", "graph", "--all"], {
    env: process.env,
    encoding: "utf8",
  });
  expect(stderr).toBe("");
  const lines = stdout.split("\n").map((line) => line.replace(/^\S{12} /, ""));
  expect(lines.slice(3, 12)).toEqual([
    "custom  step -1 · input · start",
    "custom  start writes messages → model",
    "user  What grows here?",
    "custom  step 0 · loop · messages → model",
    "custom  model writes messages → tools",
    "assistant  look(north)",
    "custom  step 1 · loop · messages → tools",
    "custom  tools writes messages → model",
    "toolResult  look: Ripe pears in north.",
  ]);
});
