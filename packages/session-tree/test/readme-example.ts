import { strict as assert } from "node:assert";
import {
  anthropicFormat,
  buildRequest,
  drawTree,
  ForkLines,
  forkHeader,
  label,
  memoryStore,
  message,
  planFork,
  SessionTree,
} from "@espalier/session-tree";

const store = memoryStore(); // `fileStore({ home })` of "@espalier/session-tree/node" keeps files
const timestamp = new Date().toISOString();
const header = { type: "session" as const, version: 3, id: "garden", timestamp, cwd: "/garden" };
const session = await SessionTree.open(await store.create(header));
const says = (id: string, content: string) => ({
  ...message.of({ message: { role: "user", content, timestamp: Date.now() } }),
  id,
});

// An append moves the leaf; under another parent it starts a branch.
await session.append([says("pear", "Plant a pear."), says("quince", "And a quince beside it.")]);
await session.append({ ...says("fig", "No: a fig."), parentId: "pear" });
await session.append(label.of({ targetId: "fig", label: "better" }));
assert.equal(drawTree(session), "pear\n├─ quince\nfig [better] *");

// The model reads a path, in a request that its provider accepts.
assert.deepEqual(session.context.sources, ["pear", "fig"]);
assert.equal(buildRequest(session.context, { format: anthropicFormat }).messages.length, 1);

// The log stores the leaf. A fork copies a path into a new session.
await session.moveTo("quince");
assert.equal((await SessionTree.open(await store.open("garden", "read"))).leafId, "quince");
const lines = new ForkLines(session.tree, planFork(session.tree, "fig"));
const fork = await SessionTree.open(
  await store.create(forkHeader(header, "garden", "fig", timestamp), lines),
);
assert.equal(drawTree(fork), "pear\nfig [better] *");
