import assert from "node:assert/strict";
import { createExtensionHost, decideHook, notifyHook, transformHook } from "@espalier/extensions";

// A hook defines how several answers are combined.
const beforePrune = decideHook<{ branch: string }, { keep: number; note: string }>("before_prune", {
  fields: { keep: "one", note: "join" },
  validate: ({ keep = 0 }) => (keep < 0 ? "keep is negative." : undefined),
});
const pruned = notifyHook<{ branch: string }>("pruned");
const leaves = transformHook<string[], "leaves">("leaves", { field: "leaves" });

const reports: string[] = [];
const host = createExtensionHost({
  hooks: { before_prune: beforePrune, pruned, leaves },
  onReport: (report) => reports.push(report.message),
});

await host.register("careful", (api) => {
  api.on("before_prune", () => ({ keep: 3, note: "It is spring." }), { priority: 10 });
  api.on("leaves", (event) => {
    event.leaves.push("new"); // a draft: the caller's array stays unchanged
  });
});
await host.register("hasty", (api) => {
  api.on("before_prune", async (event) => ({ keep: 0, note: `${event.branch} is long.` }));
  api.on("pruned", () => {
    throw new Error("no shears");
  });
});

const { answer, owners, cancelled } = await host.decide(beforePrune, { branch: "main" }, {});
assert.deepEqual(answer, { keep: 3, note: "It is spring.\n\nmain is long." });
assert.deepEqual(owners, { keep: ["careful"], note: ["careful", "hasty"] });
assert.equal(cancelled, null);
assert.deepEqual(await host.transform(leaves, ["old"], {}), ["old", "new"]);
await host.notify(pruned, { branch: "main" }, {});
assert.deepEqual(reports, [
  'careful and hasty both answered before_prune with "keep"; the answer of careful is used.',
  "hasty failed in pruned: no shears",
]);
