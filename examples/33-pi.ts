// Pi's SDK on a session of Espalier: in a host only the import of `SessionManager` changes.
//
//   const { session } = await createAgentSession({ sessionManager: SessionManager.create(process.cwd()) });
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { compareBranches, openSession } from "espalier";
import { SessionManager } from "espalier/adapters/pi";

const folder = mkdtempSync(join(tmpdir(), "espalier-pi-"));
process.on("exit", () => rmSync(folder, { recursive: true }));

// What Pi's agent calls while it runs. Each call returns when its line is in the file.
const manager: SessionManager = SessionManager.create("/home/ada/garden", folder);
const answer = (text: string) => {
  const by = { role: "assistant", api: "a", provider: "p", model: "m", stopReason: "stop" } as const;
  return manager.appendMessage({ ...by, content: [{ type: "text", text }], timestamp: Date.now() });
};
const content = "Which tree for a north wall?";
const asked = manager.appendMessage({ role: "user", content, timestamp: Date.now() });
const pear = answer("A pear: Conference bears fruit in the shade.");
manager.branchWithSummary(asked, "A Conference pear was proposed; it is too tall.");
answer("A morello cherry.");
await manager.flush(); // survives a loss of power, too
manager.close();

// The same file in Espalier: its tree, its branches, its commands.
const session = await openSession({ file: manager.getSessionFile()! });
assert.equal(session.context.messages.length, 3);
assert.equal(compareBranches(session.tree, pear, session.leafId).commonAncestorId, asked);
await session.close();
