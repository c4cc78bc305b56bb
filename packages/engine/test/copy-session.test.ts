import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { copySession, diagnose } from "@espalier/engine";
import { memoryLog, memoryStore } from "@espalier/session-tree";
import { fileStore } from "@espalier/session-tree/node";
import { growEntries } from "@espalier/session-tree/testing";
import { afterAll, expect, test } from "vitest";

const folder = mkdtempSync(join(tmpdir(), "espalier-copy-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** Sound, and as another program might have written it: spaces in the header, CRLF, a blank line, escapes. */
const HEADER = `{ "type":"session", "version":3.0, "id":"odd","timestamp":"2026-01-01T00:00:00.000Z","cwd":"/garden" }`;
const [first, ...rest] = growEntries("u1 > a1 > u2 > a2; a1 > u3").map((entry) => JSON.stringify(entry));
const LINES = [
  HEADER,
  first!.replace('"type":', '"\\u0078":"\\u0000\\ud800", "type" : '),
  "",
  ...rest.map((line) => `${line}\r`),
];
const TEXT = `${LINES.join("\n")}\n`;
const odd = () => memoryLog(new TextEncoder().encode(TEXT), "odd");

test("a valid session has the same bytes wherever it is copied to and back", async () => {
  expect((await diagnose(odd())).issues).toEqual([]);
  const memory = memoryStore();
  const there = await copySession(odd(), memory);
  expect(there).toMatchObject({ file: "odd", id: "odd", bytes: Buffer.byteLength(TEXT) });
  const path = join(folder, "out.jsonl");
  await copySession(await memory.open("odd", "read"), fileStore({ home: folder }), path);
  expect(readFileSync(path, "utf8")).toBe(TEXT);
});

test("an interrupted copy is completed by the next one, and a complete copy stays unchanged", async () => {
  for (let cut = 1; cut <= LINES.length; cut++) {
    const path = join(folder, `cut-${cut}.jsonl`);
    const begun = `${LINES.slice(0, cut).join("\n")}\n`;
    writeFileSync(path, begun);
    const copy = await copySession(odd(), fileStore({ home: folder }), path);
    expect(copy.written).toBe(Buffer.byteLength(TEXT) - Buffer.byteLength(begun));
    expect(readFileSync(path, "utf8")).toBe(TEXT);
  }
});

test("a copy that has diverged is not overwritten", async () => {
  const path = join(folder, "own.jsonl");
  for (const there of [
    `${HEADER}\n{"type":"custom","id":"x","parentId":null}\n`,
    `${TEXT}{"type":"custom"}\n`,
    TEXT.slice(0, -5),
  ]) {
    writeFileSync(path, there);
    await expect(copySession(odd(), fileStore({ home: folder }), path)).rejects.toMatchObject({
      code: "exists",
    });
    expect(readFileSync(path, "utf8")).toBe(there);
  }
});

test("a session of an old format is copied unchanged, and a copy of an earlier state stays unchanged", async () => {
  const old = LINES.map((line) => line.replace("3.0", "2"));
  const whole = `${old.join("\n")}\n`;
  const log = (text: string) => memoryLog(new TextEncoder().encode(text), "odd");
  const store = fileStore({ home: folder });
  const path = join(folder, "old.jsonl");
  for (const written of [Buffer.byteLength(whole), 0]) {
    expect(await copySession(log(whole), store, path)).toMatchObject({ written });
    expect(readFileSync(path, "utf8")).toBe(whole);
  }
  const grown = `${whole}{"type":"custom","id":"more","parentId":"u1","timestamp":"t","customType":"t"}\n`;
  await expect(copySession(log(grown), store, path)).rejects.toMatchObject({
    code: "exists",
    message: expect.stringContaining("old format"),
  });
  const source = log(whole);
  await source.append(['{"type":"custom","id":"more","parentId":"u1","timestamp":"t","customType":"t"}']);
  await expect(copySession(source, store, path)).rejects.toMatchObject({ code: "exists" });
  expect(readFileSync(path, "utf8")).toBe(whole);
  expect(existsSync(`${path}.v2`)).toBe(false);
});
