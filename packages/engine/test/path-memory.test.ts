import { execFileSync } from "node:child_process";
import { closeSync, mkdtempSync, openSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { buildSync } from "esbuild";
import { expect, test } from "vitest";

const folder = mkdtempSync(join(tmpdir(), "espalier-"));
const program = join(folder, "path-peak.mjs");
buildSync({
  entryPoints: [fileURLToPath(new URL("path-peak.ts", import.meta.url))],
  bundle: true,
  platform: "node",
  format: "esm",
  banner: {
    js: "import{createRequire as requireOf}from'node:module';const require=requireOf(import.meta.url);",
  },
  outfile: program,
});

/** Megabytes of the heap, which are far fewer than the messages have. A process that needs more ends. */
const HEAP = ["--max-old-space-size=48", "--max-semi-space-size=2"];

/** What a session of so many messages of 100 kB, which name no model, does with this heap. */
function outcomeOf(file: string, ...act: string[]): unknown {
  const told = execFileSync(process.execPath, [...HEAP, program, file, ...act], {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "inherit"],
  });
  return JSON.parse(told);
}

/** A file, and the entries in it that name settings: before the messages, and behind the compaction. */
interface Named {
  name: string;
  naming?: object[];
  behind?: object[];
}

const MODEL = { type: "model_change", provider: "anthropic", modelId: "claude-test" };
const THINKING = { type: "thinking_level_change", thinkingLevel: "high" };

/** 150 MB of messages, a compaction that keeps the last of them, and one message more. */
function longSession({ name, naming = [], behind = [] }: Named): string {
  const file = join(folder, name);
  const out = openSync(file, "w");
  const timestamp = "2026-01-01T00:00:00.000Z";
  let parentId: string | null = null;
  const write = (entry: { id: string }) => {
    writeSync(out, `${JSON.stringify({ ...entry, parentId, timestamp })}\n`);
    parentId = entry.id;
  };
  writeSync(out, `${JSON.stringify({ type: "session", version: 3, id: name, timestamp, cwd: "/" })}\n`);
  for (const [at, entry] of naming.entries()) write({ id: `naming-${at}`, ...entry });
  const content = "word ".repeat(20_000);
  const message = { role: "user", content, timestamp: 1 };
  for (let at = 0; at < 1_500; at++) write({ type: "message", id: `m${at}`, message } as { id: string });
  const kept = { type: "compaction", id: "k", summary: "All.", firstKeptEntryId: "m1499", tokensBefore: 1 };
  write(kept);
  for (const [at, entry] of behind.entries()) write({ id: `behind-${at}`, ...entry });
  write({ type: "message", id: "last", message: { ...message, content: "and now?" } } as { id: string });
  closeSync(out);
  return file;
}

test("opening a session without a model above its compaction keeps no hidden entries in memory", () => {
  const file = longSession({ name: "unnamed.jsonl" });
  expect(outcomeOf(file)).toEqual({ before: 3, after: 3, model: null });
  // A model that the first entry names is found all the same.
  const named = longSession({ name: "named.jsonl", naming: [MODEL] });
  expect(outcomeOf(named)).toEqual({
    before: 3,
    after: 3,
    model: { provider: "anthropic", modelId: "claude-test" },
  });
}, 120_000);

test("navigating to the beginning keeps nothing of the abandoned branch in memory", () => {
  const file = longSession({ name: "left.jsonl", behind: [MODEL, THINKING] });
  expect(outcomeOf(file, "navigate")).toEqual({ before: 3, after: 0, model: null });
}, 120_000);

test("a walk over all entries of a session keeps at most a few megabytes in memory", () => {
  const file = longSession({ name: "walked.jsonl", behind: [MODEL, THINKING] });
  expect(outcomeOf(file, "walk")).toMatchObject({ before: 3, after: 3 });
}, 120_000);
