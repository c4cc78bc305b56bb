// Let another model write the summary: the extension answers with a compaction of its own, and the engine holds it to
// the rules of its own summaries before it is written.
import assert from "node:assert/strict";
import { defineExtension } from "espalier";
import { messageText } from "espalier/extend";
import { conversation } from "./parts/conversation.ts";

/** Stands for a call to any model at all. */
async function askSmallModel(transcript: string): Promise<string> {
  return `## Goal\nRename helpers.\n\n## Progress\n${transcript.match(/Renamed it in \S+/g)?.join("\n") ?? "(none)"}`;
}

const anotherModel = defineExtension((api) => {
  api.on("session_before_compact", async ({ preparation }, { signal }) => {
    const { messagesToSummarize, turnPrefixMessages, firstKeptEntryId, tokensBefore } = preparation;
    const transcript = [...messagesToSummarize, ...turnPrefixMessages].map(messageText).join("\n");
    const summary = await askSmallModel(transcript);
    if (signal.aborted) return {};
    return { compaction: { summary, firstKeptEntryId, tokensBefore, details: { model: "small" } } };
  });
});

const session = await conversation(anotherModel);
const result = await session.compact({ settings: { keepRecentTokens: 2_000 } });

assert.ok(result.eligible);
assert.equal(result.source, "extension");
assert.match(result.summary, /Renamed it in src\/part-1\.ts/);
assert.equal(session.context.messages[0]?.role, "compactionSummary");
await session.close();
