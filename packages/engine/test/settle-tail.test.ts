import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openSession, settleTail } from "@espalier/engine";
import { afterAll, expect, test } from "vitest";

const folder = mkdtempSync(join(tmpdir(), "espalier-"));
afterAll(() => rmSync(folder, { recursive: true }));

const header = {
  type: "session",
  version: 3,
  id: "s1",
  timestamp: "2026-01-01T00:00:00.000Z",
  cwd: "/garden",
};
const said = (id: string, parentId: string | null) => ({
  type: "message",
  id,
  parentId,
  timestamp: "2026-01-01T00:00:01.000Z",
  message: { role: "user", content: id.repeat(1_000), timestamp: 1 },
});
const line = (value: object) => `${JSON.stringify(value)}\n`;

/** A session whose last line is half there, opened by a reader. */
async function halfWritten(name: string) {
  const file = join(folder, name);
  const last = line(said("b", "a"));
  writeFileSync(file, `${line(header)}${line(said("a", null))}${last.slice(0, 900)}`);
  const session = await openSession({ file }, { home: folder, mode: "read" });
  expect(session.diagnose().issues).toMatchObject([{ kind: "torn-tail" }]);
  return { session, last, goOn: (from: number, to?: number) => appendFileSync(file, last.slice(from, to)) };
}

test("a line that another process is writing is not damage, in any number of pieces", async () => {
  const { session, goOn } = await halfWritten("busy.jsonl");
  const settled = settleTail(session);
  goOn(900, 910);
  setTimeout(() => goOn(910), 50);
  await settled;
  expect(session.diagnose()).toMatchObject({ ok: true, entries: 2, issues: [] });
  await session.close();
});

test("an incomplete line that does not grow is reported", async () => {
  const { session } = await halfWritten("abandoned.jsonl");
  await settleTail(session);
  expect(session.diagnose()).toMatchObject({
    ok: false,
    entries: 1,
    issues: [{ kind: "torn-tail", line: 3 }],
  });
  await session.close();
});

test("a complete file is not waited for", async () => {
  const file = join(folder, "whole.jsonl");
  writeFileSync(file, `${line(header)}${line(said("a", null))}`);
  const session = await openSession({ file }, { home: folder, mode: "read" });
  let hasTurned = false;
  setImmediate(() => {
    hasTurned = true;
  });
  await settleTail(session);
  expect(hasTurned).toBe(false);
  await session.close();
});
