import { strict as assert } from "node:assert";
import { DEFAULT_COMPACTION_SETTINGS as settings } from "@espalier/compaction";
import { messageCount, offload, pressure, slidingWindow } from "@espalier/compaction/policies";
import { growTree } from "@espalier/session-tree/testing";

// Sixty messages, alternating. A policy is a value; evaluating and planning are pure functions of the situation.
const path = Array.from({ length: 30 }, (_, at) => `u${at} > a${at}`).join(" > ");
const { session } = await growTree(path);
const situation = {
  context: session.context,
  path: session.window.entries,
  settings,
  overheadTokens: 0,
  now: Date.now(),
};

const window = slidingWindow(); // tail 40, window 12: twenty messages are beyond the tail
assert.equal(window.judge(situation), "policy");
const plan = window.plan(situation, {});
assert.ok(plan.eligible && plan.historyIds.length === 20 && plan.firstKeptEntryId === "u10");

assert.equal(messageCount().judge(situation), "policy"); // more than 50
assert.equal(offload().judge(situation), undefined); // far below the model's window
assert.equal(pressure({ compactionThreshold: 1 }).judge(situation), undefined); // 15 tokens by the provider's count

// Contradictory settings are refused before a session is opened.
assert.throws(() => slidingWindow({ tailKeepSize: 80 }), /tailKeepSize .* must be below contextSize/);
