// A branch summary that says what did not work, so that it is not tried again on the next branch.
import assert from "node:assert/strict";
import { defineExtension } from "espalier";
import { isMessage, messageText } from "espalier/extend";
import { conversation } from "./parts/conversation.ts";

const failedAttempts = defineExtension((api) => {
  api.on("session_before_fork", ({ entriesToSummarize, userWantsSummary }) => {
    if (!userWantsSummary) return {};
    const failures = entriesToSummarize.flatMap((entry) =>
      isMessage(entry, "toolResult") && entry.message.isError
        ? [`- ${entry.message.toolName}: ${messageText(entry.message)}`]
        : [],
    );
    if (failures.length === 0) return {};
    return {
      summary: {
        summary: `## Failed attempts\n${failures.join("\n")}`,
        details: { failures: failures.length },
      },
    };
  });
});

const session = await conversation(failedAttempts);
const start = session.leafId;
await session.appendMessages([
  { role: "user", content: "Try it with a worker thread." },
  {
    role: "assistant",
    content: [{ type: "toolCall", id: "run-1", name: "bash", arguments: { command: "npm test" } }],
  },
  {
    role: "toolResult",
    toolCallId: "run-1",
    content: "DataCloneError: a function could not be cloned",
    isError: true,
  },
]);
const { summaryEntryId } = await session.navigate(start, { summarize: true });

assert.ok(summaryEntryId);
const told = session.context.messages.at(-1);
assert.equal(told?.role, "branchSummary");
assert.match(JSON.stringify(told), /bash: DataCloneError/);
await session.close();
