import { scriptedModel } from "@espalier/agent/testing";
import { defineExtension } from "@espalier/engine";
import { scriptedSummarizer } from "@espalier/summarizer/testing";
import { expect, test } from "vitest";
import { SUMMARY, stage, until } from "./stage.ts";

test("extensions are notified of a run, its turns and its tools, and the run waits for them", async () => {
  const told: unknown[] = [];
  const watching = defineExtension("watching", (api) => {
    api.on("agent_start", () => void told.push("start"));
    api.on("turn_start", async ({ turnIndex }, { sessionManager }) => {
      await new Promise((resolve) => setTimeout(resolve, 5));
      told.push(["turn", turnIndex, sessionManager.getLeafEntry()?.type]);
    });
    api.on("tool_result", ({ toolName, input, isError }) => void told.push([toolName, input, isError]));
    api.on(
      "turn_end",
      ({ turnIndex, toolResults }) => void told.push(["turned", turnIndex, toolResults.length]),
    );
    api.on("agent_end", ({ messages }) => void told.push(["end", messages.length]));
    api.on("agent_settled", () => void told.push("settled"));
  });
  const input = { path: "garden/notes.txt" };
  const model = scriptedModel([
    { calls: [{ id: "c1", name: "read_file", arguments: input }] },
    { text: "They are ripe." },
  ]);
  const { agent } = await stage({ model, open: { extensions: [watching] } });
  await agent.run("How are the pears?");
  expect(told).toEqual([
    "start",
    ["turn", 0, "message"],
    ["read_file", input, false],
    ["turned", 0, 1],
    ["turn", 1, "message"],
    ["turned", 1, 0],
    ["end", 4],
    "settled",
  ]);
  // What was told of is not frozen under the session's feet.
  await agent.run("And now?");
  expect(agent.session.context.messages.length).toBeGreaterThan(4);
});

test("extensions learn that a run ended also when a listener fails at its end", async () => {
  const told: string[] = [];
  const watching = defineExtension("watching", (api) => {
    api.on("agent_end", () => void told.push("end"));
    api.on("agent_settled", () => void told.push("settled"));
  });
  const { agent } = await stage({
    model: scriptedModel([{ text: "Ripe." }]),
    open: { extensions: [watching] },
  });
  agent.on(({ type }) => {
    if (type === "agent_end") throw new Error("no screen");
  });
  await expect(agent.run("How are the pears?")).rejects.toThrow("no screen");
  expect(told).toEqual(["end", "settled"]);
});

test("an extension compacts when the context crosses its threshold, and the run continues", async () => {
  const notified: string[] = [];
  const eager = defineExtension("eager", (api) => {
    let before = Number.POSITIVE_INFINITY;
    api.on("turn_end", (_event, ctx) => {
      const { tokens } = ctx.getContextUsage();
      if (before <= 5_000 && tokens > 5_000)
        ctx.compact({
          onComplete: () => notified.push("done"),
          onError: (error) => notified.push(error.message),
        });
      before = tokens;
    });
  });
  const model = scriptedModel((_, turn) => ({ text: `Day ${turn}.`, inputTokens: turn * 3_000 }));
  const { agent, session } = await stage({
    model,
    open: {
      extensions: [eager],
      compaction: { keepRecentTokens: 10 },
      summarizer: scriptedSummarizer(SUMMARY),
    },
  });
  for (const day of ["1", "2", "3"]) await agent.run(`Day ${day}? ${"Look well. ".repeat(2_000)}`);
  await until(() => notified.length > 0);
  expect(notified).toEqual(["done"]);
  expect(session.getEntries().filter(({ type }) => type === "compaction")).toHaveLength(1);
});
