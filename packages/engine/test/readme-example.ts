import { strict as assert } from "node:assert";
import { createSession, defineExtension, openSession } from "@espalier/engine";
import { anthropicFormat, buildRequest, memoryStore } from "@espalier/session-tree";

// An extension that names the focus of every summary.
const careful = defineExtension((api) => {
  api.on("session_before_compact", ({ reason }) => ({ instructions: `Keep all ids (${reason}).` }));
});

const store = memoryStore(); // without it: files below ~/.espalier
const compaction = { keepRecentTokens: 100 };
const session = await createSession({ store, compaction, extensions: [careful] });
for (const bed of ["north", "south", "east", "west"]) {
  await session.appendMessages([
    { role: "user", content: `Plant the ${bed} bed. ${"Mind the worms. ".repeat(40)}` },
    { role: "assistant", content: `The ${bed} bed has beans now. ${"They grow. ".repeat(40)}` },
  ]);
}

// Compact: one append, or nothing at all. Only the model's view changes; the log keeps every word.
const before = session.leafId;
const compacted = await session.compact();
assert.ok(compacted.eligible && compacted.tokensAfter < compacted.tokensBefore);
assert.equal(session.context.messages[0]?.role, "compactionSummary");
assert.equal(buildRequest(session.context, { format: anthropicFormat }).messages[0]?.role, "user");

// Go back before it, with a summary of the abandoned branch; then undo that.
const start = session.getBranch()[1]!.id;
const arrived = await session.navigate(start, { summarize: true, label: "second try" });
assert.equal(session.context.messages.at(-1)?.role, "branchSummary");
await session.undo();
assert.equal(session.leafId, compacted.entryId);

// A fork is a separate session; a merge adds the conclusion of another branch.
const fork = await session.fork(before!, { position: "at" });
assert.deepEqual((await session.merge(arrived.summaryEntryId!)).leafId, session.leafId);
await session.close();
const reopened = await openSession({ file: fork.file }, { store, mode: "read" });
assert.equal(reopened.context.messages.length, 8);
