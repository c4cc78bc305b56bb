import { scriptedModel } from "@espalier/agent/testing";
import { defineExtension } from "@espalier/engine";
import { messageText } from "@espalier/session-tree";
import { expect, test } from "vitest";
import { stage } from "./stage.ts";

const careful = defineExtension("careful", (api) => {
  api.on("session_before_compact", () => ({ cancel: true, reason: "a deploy is running" }));
});

test("a vetoed compaction after an answer keeps the answer: the run ends with it, and the veto is reported and logged", async () => {
  const logged: string[] = [];
  const { agent, events } = await stage({
    model: scriptedModel(
      [{ text: "Good morning." }, { text: "All is well.", inputTokens: 50_000 }, { text: "Still." }],
      {
        contextWindow: 60_000,
      },
    ),
    open: {
      compaction: { keepRecentTokens: 10 },
      extensions: [careful],
      log: { warn: (message) => logged.push(message), error: (message) => logged.push(message) },
    },
  });
  await agent.run("Good morning.");
  const answer = await agent.run(`How is the garden? ${"Look well. ".repeat(400)}`);
  expect(answer && messageText(answer)).toBe("All is well.");
  const veto = "The compaction was cancelled by careful: a deploy is running";
  expect(events).toContainEqual({ type: "compact_failed", message: veto });
  expect(events.at(-1)).toMatchObject({ type: "agent_end", lastAssistantMessage: answer });
  expect(logged).toEqual([`The session was not compacted, and is unchanged: ${veto}`]);
  expect(messageText((await agent.run("And now?"))!)).toBe("Still.");
});
