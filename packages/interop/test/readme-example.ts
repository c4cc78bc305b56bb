import { strict as assert } from "node:assert";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fromOpenaiChat, toAnthropic } from "@espalier/interop";
import { importSessions } from "@espalier/interop/node";
import { memoryStore, SessionTree } from "@espalier/session-tree";

// Two lines in Claude Code's format, and a third one that was cut off.
const path = join(mkdtempSync(join(tmpdir(), "history-")), "session.jsonl");
const line = (uuid: string, parentUuid: string | null, role: string, message: object) =>
  JSON.stringify({ type: role, uuid, parentUuid, sessionId: "s1", message: { role, ...message } });
const question = line("u1", null, "user", { content: "Which way is up?" });
const answer = line("a1", "u1", "assistant", { content: [{ type: "text", text: "That one." }] });
writeFileSync(path, `${question}\n${answer}\n{"type":"us`);

const store = memoryStore();
for await (const report of importSessions(path, { store })) {
  assert.equal(report.added, 2);
  assert.deepEqual(
    report.issues.map(({ kind, lines }) => [kind, lines]),
    [["torn-line", "3"]],
  );
}
for await (const again of importSessions(path, { store })) assert.equal(again.status, "unchanged");

const { context } = await SessionTree.open(await store.open("s1", "read"));
assert.deepEqual(context.sources, ["u1", "a1"]);
assert.equal(toAnthropic(context).messages[0]!.role, "user");

const chat = fromOpenaiChat([{ role: "user", content: "Which way is up?" }]);
assert.equal(chat.messages[0]!.role, "user");
