import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { custom, SessionTree } from "@espalier/session-tree";
import { FileLog } from "@espalier/session-tree/node";
import { growEntries } from "@espalier/session-tree/testing";
import { afterAll, expect, test } from "vitest";

const folder = mkdtempSync(join(tmpdir(), "espalier-"));
afterAll(() => rmSync(folder, { recursive: true }));

const lines = growEntries(`u1 > a1 > u2 > k1(u2) > a2; a1 > u3 > l1(u3 "x")`).map((entry) =>
  JSON.stringify(entry),
);
const header = (version: string) =>
  `{"type":"session",${version},"id":"s1","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/garden"}`;

test.each(['"wersion":3', '"version":1', '"version":"3"'])(
  "a header that lost its version (%s) keeps its own keys, and takes none of an entry",
  async (version) => {
    const path = join(folder, `${version.replace(/\W/g, "")}.jsonl`);
    const sound = await SessionTree.open(FileLog.open(write(`${path}.sound`, '"version":3'), "read"));
    const session = await SessionTree.open(FileLog.open(write(path, version), "write"));
    expect([...session.tree.entries()]).toEqual([...sound.tree.entries()]);
    expect(session.leafId).toBe(sound.leafId);
    expect(session.context).toEqual(sound.context);
    await session.append(custom.of({ customType: "test" }));
    await session.close();
    const [first, ...rest] = readFileSync(path, "utf8").trimEnd().split("\n");
    expect(JSON.parse(first!)).toMatchObject({ type: "session", version: 3, id: "s1" });
    expect(rest.slice(0, -1)).toEqual(lines);
    expect(existsSync(`${path}.v1`)).toBe(true);
    await sound.close();
  },
);

function write(path: string, version: string): string {
  writeFileSync(path, `${[header(version), ...lines].join("\n")}\n`);
  return path;
}
