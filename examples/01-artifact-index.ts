// Keep an index of what the agent has made across any number of compactions: an extension's state follows the branch,
// and its words go into every summary.
import assert from "node:assert/strict";
import { defineExtension } from "espalier";
import { conversation } from "./parts/conversation.ts";

const artifactIndex = defineExtension((api) => {
  const artifacts = api.state<string[]>("artifact-index", {
    initial: [],
    fold: (known, data) => [...new Set([...known, ...(data as string[])])],
  });

  api.on("session_before_compact", async ({ preparation }) => {
    await artifacts.append([...preparation.fileOps.edited]);
    return { instructions: `List these artifacts under Critical Context: ${artifacts.get().join(", ")}` };
  });
});

const session = await conversation(artifactIndex);
await session.compact({ settings: { keepRecentTokens: 3_000 } });
await session.appendMessages([{ role: "user", content: "And now the second round, please. ".repeat(400) }]);
await session.compact({ settings: { keepRecentTokens: 500 } });

const index = session
  .getEntries()
  .filter((entry) => entry.type === "custom")
  .at(-1) as { data?: string[] } | undefined;
assert.ok(index?.data?.includes("src/part-1.ts"));
const [summary] = session.context.messages;
assert.match(JSON.stringify(summary), /<modified-files>\\nsrc\/part-1\.ts/);
await session.close();
