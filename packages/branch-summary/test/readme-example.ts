import { strict as assert } from "node:assert";
import {
  collectEntriesForBranchSummary,
  generateBranchSummary,
  prepareBranchEntries,
} from "@espalier/branch-summary";
import { growTree } from "@espalier/session-tree/testing";
import { extractiveSummarizer } from "@espalier/summarizer";

// Two branches after a1; the leaf is at the end of the second.
const { session } = await growTree(`
  u1("Where is the best place for the pear?") > a1 > u2("Try the north wall.") > c1 > t1 > a2("Too dark.")
  a1 > u3("Then the south wall.") > a3*
`);

// A move from a2 to a3 abandons the entries between their deepest common ancestor and a2.
const { entries, commonAncestorId } = collectEntriesForBranchSummary(session, "a2", "a3");
assert.equal(commonAncestorId, "a1");
assert.deepEqual(
  entries.map(({ id }) => id),
  ["u2", "c1", "t1", "a2"],
);

// The newest messages that fit into a budget, and the files of the whole branch.
const { messages, fileOps } = prepareBranchEntries(entries, 1_000);
assert.equal(messages.length, 4);
assert.deepEqual([...fileOps.read], ["c1.txt"]);

// Generating a summary writes nothing. One append moves the leaf and adds the summary there.
const { summary } = await generateBranchSummary(entries, { summarizer: extractiveSummarizer() });
assert.match(summary, /Try the north wall\./);
assert.match(summary, /<read-files>\nc1\.txt\n<\/read-files>$/);
const entryId = await session.branchWithSummary("a3", summary);
assert.deepEqual(session.context.sources, ["u1", "a1", "u3", "a3", entryId]);
