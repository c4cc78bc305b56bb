// Refuse to compact while a tool call has no result yet: the tool or the user still has to answer.

import assert from "node:assert/strict";
import { defineExtension, type Entry, type EspalierError } from "espalier";
import { isMessage, toolCalls } from "espalier/extend";
import { conversation } from "./parts/conversation.ts";

/** Calls on a path without a result. */
function openCalls(path: readonly Entry[]): string[] {
  const answered = new Set(
    path.flatMap((entry) => (isMessage(entry, "toolResult") ? [entry.message.toolCallId] : [])),
  );
  return path
    .flatMap((entry) => (isMessage(entry, "assistant") ? toolCalls(entry.message) : []))
    .flatMap(({ id }) => (answered.has(id) ? [] : [id]));
}

const waitForOpenCalls = defineExtension((api) => {
  api.on("session_before_compact", ({ branchEntries }) => {
    const open = openCalls(branchEntries);
    return open.length > 0 ? { cancel: true, reason: `${open.join(", ")} has no result yet` } : {};
  });
});

const session = await conversation(waitForOpenCalls);
const call = { type: "toolCall", id: "deploy-1", name: "deploy", arguments: {} };
await session.appendMessages([{ role: "assistant", content: [call] }]);
await assert.rejects(
  session.compact({ settings: { keepRecentTokens: 2_000 } }),
  (error: EspalierError) => error.code === "cancelled" && /deploy-1 has no result yet/.test(error.message),
);

await session.appendMessages([{ role: "toolResult", toolCallId: "deploy-1", content: "deployed" }]);
assert.ok((await session.compact({ settings: { keepRecentTokens: 2_000 } })).eligible);
await session.close();
