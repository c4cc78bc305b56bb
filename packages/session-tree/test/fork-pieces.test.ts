import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { bytesView } from "@espalier/jsonl-stream";
import { ForkLines, forkHeader, planFork, Tree } from "@espalier/session-tree";
import { fileStore } from "@espalier/session-tree/node";
import fc from "fast-check";
import { afterEach, beforeEach, expect, test } from "vitest";

let home: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "espalier-fork-"));
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

const header = { type: "session" as const, version: 3, id: "origin", timestamp: "2026-01-01", cwd: "/" };

/** An entry: which one it follows (how far back), how long it is, and what stands behind it. */
const seed = fc.record({
  back: fc.oneof(
    { weight: 6, arbitrary: fc.constant(1) },
    { weight: 1, arbitrary: fc.integer({ min: 1, max: 5 }) },
  ),
  length: fc.oneof(
    { weight: 20, arbitrary: fc.integer({ min: 0, max: 300 }) },
    { weight: 1, arbitrary: fc.integer({ min: 300_000, max: 1_200_000 }) },
  ),
  // Glued to the next one by a write that was torn, too.
  end: fc.constantFrom("\n", "\n", "\n", "\n", "\r\n", "\n\n", "\n{ no JSON\n", "", " "),
});

type Seed = typeof seed extends fc.Arbitrary<infer Value> ? Value : never;

function linesOf(seeds: readonly Seed[]): string {
  const lines = seeds.map(({ back, length, end }, at) => {
    const parentId = at < back ? null : `e${at - back}`;
    const message = { role: "user", content: "ö".repeat(length), timestamp: 1 };
    const entry = { type: "message", id: `e${at}`, parentId, timestamp: "2026-01-01", message };
    return JSON.stringify(entry) + end;
  });
  return `${JSON.stringify(header)}\n${lines.join("")}`;
}

const joined = (chunks: Iterable<Uint8Array>): Buffer =>
  Buffer.concat(Array.from(chunks, (chunk) => Buffer.from(chunk)));

test("a fork copied in pieces has exactly its lines, each with a newline, whatever was between them", () => {
  fc.assert(
    fc.property(fc.array(seed, { minLength: 1, maxLength: 25 }), fc.nat(), (seeds, at) => {
      const tree = new Tree(bytesView(Buffer.from(linesOf(seeds))));
      const lines = new ForkLines(tree, planFork(tree, tree.idAt(at % tree.length)));
      const expected = joined(
        Array.from(lines, (line) => Buffer.concat([Buffer.from(line), Buffer.from("\n")])),
      );
      expect(joined(lines.pieces()).equals(expected)).toBe(true);
    }),
    { numRuns: 150 },
  );
});

test("a fork in a file has exactly the lines of its path", async () => {
  const [first, ...others] = linesOf([1, 1, 1, 3, 1].map((back) => ({ back, length: 9, end: "\n" }))).split(
    "\n",
  );
  const origin = join(home, "origin.jsonl");
  writeFileSync(origin, [first, ...others].join("\n"));
  const store = fileStore({ home });
  const log = await store.open({ file: origin }, "read");
  const tree = new Tree(log.view!);
  const plan = planFork(tree, "e4");
  const fork = await store.create(
    forkHeader(log.header!, origin, plan.leafId, "2026-01-02"),
    new ForkLines(tree, plan),
  );
  const [head, ...path] = readFileSync(fork.ref, "utf8").split("\n");
  expect(JSON.parse(head!).parent).toEqual({ sessionId: "origin", entryId: "e4", kind: "fork" });
  expect(path).toEqual([others[0], others[3], others[4], ""]);
  await fork.close();
  await log.close();
});
