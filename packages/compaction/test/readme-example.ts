import { strict as assert } from "node:assert";
import { compact, prepareCompaction } from "@espalier/compaction";
import { contextOfPath } from "@espalier/session-tree";
import { growTree } from "@espalier/session-tree/testing";
import { extractiveSummarizer } from "@espalier/summarizer";

// A question, a call and its result, an answer, eight times over; the leaf is the last answer.
const turn = (n: number) => `u${n}("Plant bed ${n} with beans, please.") > c${n} > t${n} > a${n}("Done.")`;
const { session } = await growTree(Array.from({ length: 8 }, (_, n) => turn(n)).join(" > "));

// A plan is data: it can be printed, changed, refused. Making it calls no model and writes nothing.
const plan = prepareCompaction(session.getBranch(), { keepRecentTokens: 8 });
assert.ok(plan.eligible);
assert.equal(plan.firstKeptEntryId, "c7");
assert.ok(plan.isSplitTurn && plan.turnStartEntryId === "u7"); // the cut is inside the last turn
assert.equal(plan.historyIds.length, 28);

// Executing it requests both parts of the summary at once, and writes nothing either.
const { summary } = await compact(plan, { summarizer: extractiveSummarizer() });
assert.match(summary, /^## Goal\n/);
assert.match(summary, /<goal>\nPlant bed 0 with beans, please\.\n<\/goal>/); // a block after the prose
assert.match(summary, /<read-files>\nc0\.txt\n/);

// After one append the model reads the summary and the kept messages.
await session.appendCompaction(summary, plan.firstKeptEntryId, plan.tokensBefore);
assert.deepEqual(session.context.sources.slice(1), ["c7", "t7", "a7"]);
assert.deepEqual(session.context, contextOfPath(session.getBranch()));
