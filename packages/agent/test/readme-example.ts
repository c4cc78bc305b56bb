import { strict as assert } from "node:assert";
import { createAgent, queryHistoryTool } from "@espalier/agent";
import { scriptedModel } from "@espalier/agent/testing";
import { createSession } from "@espalier/engine";
import { memoryStore } from "@espalier/session-tree";

const session = await createSession({ store: memoryStore() }); // without a store: a file below ~/.espalier
// A model with scripted answers. `anthropic(new Anthropic())` streams from Claude instead.
const model = scriptedModel([
  { text: "I look.", calls: [{ id: "c1", name: "look", arguments: { bed: "north" } }] },
  { text: "Pears, and they are ripe." },
]);
const look = {
  name: "look",
  run: async ({ bed }: Record<string, unknown>) => `ripe pears in the ${bed} bed`,
};

const agent = createAgent({
  session,
  model,
  tools: [look, queryHistoryTool(session)],
  system: "You garden.",
});
const stop = agent.on((event) => {
  if (event.type === "tool_end") assert.equal(event.result.isError, false);
});
const answer = await agent.run("What grows here?");
stop();

assert.deepEqual(answer?.content, [{ type: "text", text: "Pears, and they are ripe." }]);
// Each step is written to the log before the next one begins, and each request is built from the log.
const roles = session.context.messages.map(({ role }) => role);
assert.deepEqual(roles, ["user", "assistant", "toolResult", "assistant"]);
assert.equal(agent.state.state, "answered");
