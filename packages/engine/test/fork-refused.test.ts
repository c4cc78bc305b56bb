import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openSession } from "@espalier/engine";
import { expect, it } from "vitest";

const HEADER = { type: "session", id: "s1", timestamp: "2026-01-01T00:00:00.000Z", cwd: "/project" };
const ENTRY = {
  type: "message",
  id: "u1",
  parentId: null,
  timestamp: "2026-01-01T00:00:01.000Z",
  message: { role: "user", content: "Hello", timestamp: 1 },
};

it.each([
  ["of a newer version", [{ ...HEADER, version: 4 }, ENTRY], "version"],
  ["without a header", [ENTRY], "no-header"],
])("a session %s is not forked", async (_, lines, code) => {
  const folder = mkdtempSync(join(tmpdir(), "espalier-fork-"));
  try {
    const file = join(folder, "session.jsonl");
    const out = join(folder, "fork.jsonl");
    writeFileSync(file, lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
    const session = await openSession({ file }, { mode: "read", home: folder });
    await expect(session.fork("u1", { out })).rejects.toMatchObject({ name: "EspalierError", code });
    expect(existsSync(out)).toBe(false);
    await session.close();
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
