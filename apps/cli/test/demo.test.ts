import { existsSync, readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import {
  DEMO,
  demoCopy,
  espalier,
  espalierJson,
  HEADER,
  said,
  sessionOf,
  stateOf,
  temporaryFolder,
} from "./espalier.ts";

/** Copies go where the tests tidy up. */
const inFolder = (folder: string) => ({ env: { TMPDIR: folder } });

test("the demo shows the tree, the context, a navigation, a summary, a fork and a compaction", async () => {
  const folder = temporaryFolder();
  const { code, stdout, stderr } = await espalier(["demo"], inFolder(folder));
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  const titles = [...stdout.matchAll(/^\d\. (.+)$/gm)].map(([, title]) => title);
  expect(titles).toEqual([
    "A session is a tree",
    "The model reads one path of it",
    "Go back to “before-cache”",
    "Go there again, with a summary of the abandoned branch",
    "Fork there, and replay the fork",
    "Compact it",
    "Your turn",
  ]);
  expect(stdout).toContain("[http-cache-dead-end]");
  expect(stdout).toMatch(/^62 messages, 12,234 tokens +│ 12 messages, 3,857 tokens$/m);
  expect(stdout).toMatch(/^replayed {4}16 steps, each equal to a context built from scratch$/m);
  expect(stdout).toMatch(/summary by extractive/);
  expect(stdout.match(/^ {2}espalier \w+ <file>/gm)).toHaveLength(4);
  // Every step fits on a screen, and beside one another on it.
  for (const line of stdout.split("\n")) expect(Array.from(line).length).toBeLessThanOrEqual(120);
  expect(readdirSync(folder).filter((name) => name.startsWith("espalier-demo-"))).toHaveLength(1);
});

test("the demo of a file works on a copy and prints the file's digest", async () => {
  const file = demoCopy();
  const before = stateOf(file);
  const { code, values } = await espalierJson(["demo", file], inFolder(temporaryFolder()));
  expect(code).toBe(0);
  expect(stateOf(file)).toBe(before);
  const [tree, context, there, told, fork, compacted, end] = values;
  expect(tree).toMatchObject({ step: 1, entries: 212, branches: 6 });
  expect(context).toMatchObject({ messages: 62, tokens: 12_234 });
  expect(there).toMatchObject({ to: "vPdDiWYGH0ya", after: { messages: 12, tokens: 3_857 } });
  expect(told.with).toMatchObject({ messages: 13 });
  expect(told.summary).toContain("## Goal");
  expect(fork).toMatchObject({ steps: 16, verified: true });
  expect(compacted.after.tokens).toBeLessThan(compacted.before.tokens / 2 + 1_000);
  expect(end).toMatchObject({ file: { path: file, untouched: true, sha256: before.split(" ")[0] } });
  expect(existsSync(end.folder)).toBe(true);
});

test("the demo plays all its steps on any session", async () => {
  const long = sessionOf(
    HEADER,
    ...Array.from({ length: 30 }, (_, at) =>
      said(`e${at}`, at ? `e${at - 1}` : null, `word ${at} `.repeat(50)),
    ),
  );
  const sessions = [
    sessionOf(HEADER),
    sessionOf(HEADER, said("e1", null, "hi")),
    sessionOf(HEADER, said("e1", null, "hi"), said("e2", "e1", "there")),
    long,
  ];
  const runs = await Promise.all(
    sessions.map((file) => espalierJson(["demo", file], inFolder(temporaryFolder()))),
  );
  for (const { code, stderr, values } of runs) {
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(values.at(-1)).toMatchObject({ title: "Your turn" });
  }
});

test("the demo refuses a file that is not a session, and leaves no files", async () => {
  const folder = temporaryFolder();
  const prose = fileURLToPath(import.meta.url);
  const { code, value } = await espalierJson(["demo", prose], inFolder(folder));
  expect(code).toBe(1);
  expect(value.error.code).toBe("not-a-session");
  expect(readdirSync(folder)).toEqual([]);
  expect(existsSync(DEMO)).toBe(true);
});

test("the last line is a complete command, and text in a summary that looks like a tag is printed unchanged", async () => {
  const TMPDIR = temporaryFolder();
  const prompts = Array.from({ length: 30 }, (_, at) =>
    said(`e${at}`, at ? `e${at - 1}` : null, `Write \`tidepool sync <station> --days <n>\`, part ${at}.`),
  );
  const { stdout } = await espalier(["demo", sessionOf(HEADER, ...prompts)], { env: { TMPDIR } });
  expect(stdout.trimEnd().split("\n").at(-1)).toBe("  espalier open <file>");
  expect(stdout).toMatch(/^ +- .*`tidepool sync <station> --days <n>`/m);
  expect(stdout).not.toContain("&lt;");
});
