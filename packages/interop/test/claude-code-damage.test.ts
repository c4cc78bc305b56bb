import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { expect, test } from "vitest";
import { answer, user } from "./claude-code-lines.ts";
import { type AnyEntry, entryWith, imported, writeSession } from "./import-scratch.ts";

/** Imports lines as the file of one session. */
const read = (lines: readonly unknown[]) => imported(writeSession(lines));

const DAMAGED = ["../shared", "../../../shared", "../../shared"]
  .map((place) => resolve(place, "corpus/long/claude-code-mclaude-broken-21.jsonl"))
  .reduce((found, path) => (existsSync(found) ? found : path));

test("a parent lost with a damaged line is replaced by the previous line, marked and reported", async () => {
  const { entries, session, report } = await read([
    user("u1", null),
    answer("a1", "u1"),
    '{"parentUuid":"a1","uuid":"lost","type":"user","message":{"role":"us',
    answer("a2", "lost"),
    user("u3", "a2"),
  ]);
  const mark = entries.find((entry) => (entry as AnyEntry).customType === "claude-code.gap")!;
  expect(mark.parentId).toBe("a1");
  expect(entryWith(entries, "a2").parentId).toBe(mark.id);
  expect(session.getBranch().map(({ id }) => id)).toEqual(["u1", "a1", mark.id, "a2", "u3"]);
  expect(report.branches).toBe(1);
  expect(report.issues.map(({ kind, lines }) => [kind, lines])).toEqual([
    ["bad-line", "3"],
    ["bridged", "4"],
  ]);
});

test("a parent lost at the beginning of a torn line is replaced by the previous line", async () => {
  const torn = '{"parentUuid":"a1","uuid":"lost","type":"user","message":{"role":"us';
  const { session, report } = await read([
    user("u1", null),
    answer("a1", "u1"),
    `${torn}${JSON.stringify(answer("a2", "lost"))}`,
  ]);
  expect(session.getBranch().map(({ id }) => id)).toEqual(["u1", "a1", expect.any(String), "a2"]);
  expect(report.issues.map(({ kind, lines }) => [kind, lines])).toEqual([
    ["salvaged", "3"],
    ["bridged", "3"],
  ]);
});

test("a line whose type is damaged is a damaged line", async () => {
  const { entries, session, report } = await read([
    user("u1", null),
    answer("a1", "u1"),
    '{"parentUuid":"a1","uuid":"lost","ty\u0000pe":"user","message":{"role":"user","content":"And now?"}}',
    answer("a2", "lost"),
  ]);
  const mark = entries.find((entry) => (entry as AnyEntry).customType === "claude-code.gap")!;
  expect(session.getBranch().map(({ id }) => id)).toEqual(["u1", "a1", mark.id, "a2"]);
  expect(report.issues.map(({ kind, lines }) => [kind, lines])).toEqual([
    ["bad-line", "3"],
    ["bridged", "4"],
  ]);
});

const progress = (id: string, parent: string) => ({
  ...user(id, parent),
  type: "progress",
  message: undefined,
  data: { step: 1 },
});

test("a conversation goes on below progress lines in any order", async () => {
  const { session } = await read([
    user("u1", null),
    progress("p1", "u1"),
    progress("p3", "p2"),
    progress("p2", "p1"),
    answer("a1", "p3"),
  ]);
  expect(session.getBranch().map(({ id }) => id)).toEqual(["u1", "p1", "p2", "p3", "a1"]);
});

test("progress lines without successors are not a branch or a leaf", async () => {
  const { entries, session, report } = await read([
    user("u1", null),
    answer("a1", "u1"),
    progress("p1", "a1"),
    progress("p2", "p1"),
    user("u2", "a1"),
    answer("a2", "u2"),
    progress("p3", "a2"),
  ]);
  expect(entries.map(({ id }) => id)).toEqual(["u1", "a1", "u2", "a2"]);
  expect(session.leafId).toBe("a2");
  expect(report.branches).toBe(1);
  expect(report.issues).toMatchObject([{ kind: "bookkeeping", lines: "3-4, 7" }]);
});

test.skipIf(!existsSync(DAMAGED))(
  "of a long session with 28 damaged lines, all other messages are on the path (skipped without the corpus)",
  async () => {
    const { session, report } = await imported(DAMAGED);
    const messages = session.getBranch().filter((entry) => entry.type === "message");
    expect(messages.length).toBeGreaterThan(300);
    expect(report.issues.find(({ kind }) => kind === "bad-line")?.count).toBe(28);
    expect(report.issues.find(({ kind }) => kind === "bridged")?.count).toBeGreaterThan(20);
  },
);
