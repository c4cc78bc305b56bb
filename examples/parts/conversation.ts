import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createSession, type Extension, type Session, type SessionOptions } from "espalier";

/** A session in a folder of its own, with a few turns in which files are read and edited. */
export async function conversation(extension: Extension, options: SessionOptions = {}): Promise<Session> {
  const folder = mkdtempSync(join(tmpdir(), "espalier-example-"));
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  const session = await createSession({ ...options, home: folder, cwd: folder, extensions: [extension] });
  for (let turn = 1; turn <= 6; turn++) {
    const file = `src/part-${turn}.ts`;
    await session.appendMessages([
      { role: "user", content: `Rename the helper in ${file} and keep its tests green.` },
      {
        role: "assistant",
        content: [{ type: "toolCall", id: `call-${turn}`, name: "edit", arguments: { path: file } }],
      },
      { role: "toolResult", toolCallId: `call-${turn}`, content: `${"changed line\n".repeat(400)}done` },
      { role: "assistant", content: `Renamed it in ${file}; the tests pass.` },
    ]);
  }
  return session;
}
