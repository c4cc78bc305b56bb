// Runs in the consumer's project: functions of the door for pages read the session of the main door, whose classes differ.
import { deepEqual, equal } from "node:assert/strict";
import { createSession, drawTree, memoryStore } from "espalier";
import * as page from "espalier/browser";
import { exportSession } from "espalier/import";

const session = await createSession({ store: memoryStore() });
await session.appendMessages([{ role: "user", content: "When is low water?" }]);
const tree = await session.load();
equal(page.drawTree(tree), drawTree(tree));
deepEqual(page.buildSessionContext(tree), session.context);
const read = page.readTree(Buffer.from([...exportSession(session, { format: "jsonl" })].join("")));
equal(drawTree(read), drawTree(tree));
deepEqual([...exportSession(read, { format: "jsonl" })], [...exportSession(tree, { format: "jsonl" })]);
await session.close();
