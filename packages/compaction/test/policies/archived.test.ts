import { archivedRows, rowsHidden } from "@espalier/compaction/policies";
import {
  compaction,
  contextEdit,
  contextOfPath,
  memoryStore,
  pathRows,
  projectPath,
  Tree,
} from "@espalier/session-tree";
import fc from "fast-check";
import { expect, test, vi } from "vitest";

const header = { type: "session" as const, version: 3, id: "s", timestamp: "", cwd: "/" };

/** What an entry is, which one it follows (how far back), and which one it names (by position; some name nobody). */
const seed = fc.record({
  is: fc.oneof(
    { weight: 6, arbitrary: fc.constant("message" as const) },
    { weight: 1, arbitrary: fc.constant("model_change" as const) },
    { weight: 1, arbitrary: fc.constant("branch_summary" as const) },
    { weight: 2, arbitrary: fc.constant("compaction" as const) },
    { weight: 3, arbitrary: fc.constant("context_edit" as const) },
  ),
  back: fc.oneof(
    { weight: 6, arbitrary: fc.constant(1) },
    { weight: 1, arbitrary: fc.integer({ min: 1, max: 6 }) },
  ),
  names: fc.integer({ min: 0, max: 30 }),
  isBroken: fc.oneof(
    { weight: 8, arbitrary: fc.constant(false) },
    { weight: 1, arbitrary: fc.constant(true) },
  ),
  isLeftOut: fc.boolean(),
});

type Seed = typeof seed extends fc.Arbitrary<infer Value> ? Value : never;

function entryOf({ is, back, names, isBroken, isLeftOut }: Seed, at: number): object {
  const parent = at - back;
  const named = `e${names}`;
  const fields = {
    message: { message: { role: "user", content: `said ${at}`, timestamp: 1 } },
    model_change: { provider: "p", modelId: "m" },
    branch_summary: { fromId: named, summary: `left ${at}` },
    compaction: { summary: isBroken ? 1 : `summary ${at}`, firstKeptEntryId: named, tokensBefore: 1 },
    context_edit: {
      targetId: named,
      ...(isBroken ? {} : { replacement: isLeftOut ? null : { content: "shorter" } }),
    },
  }[is];
  return { type: is, id: `e${at}`, parentId: parent < 0 ? null : `e${parent}`, timestamp: "", ...fields };
}

async function treeOf(seeds: readonly Seed[]): Promise<Tree> {
  const log = await memoryStore().create(
    header,
    seeds.map(entryOf).map((line) => JSON.stringify(line)),
  );
  return new Tree(await log.load());
}

/** The same from the context itself, for which every line of the path is read. */
function archivedByReading(tree: Tree, leafRow: number): { compactionRow: number; archived: number[] } {
  const rows = pathRows(tree, leafRow);
  const path = rows.map((row) => tree.entryAt(row));
  const [first] = projectPath(path);
  // The compaction that holds comes first; the first of the path does only when it keeps nothing but itself.
  const isCompacted =
    first !== undefined &&
    compaction.is(first.entry) &&
    (first.entry !== path[0] ||
      (first.entry.firstKeptEntryId === first.entry.id && !compaction.problem?.(first.entry)));
  const compactionRow = isCompacted ? tree.row(first.entry.id) : -1;
  const shown = new Map(projectPath(path).map(({ entry, messages }) => [entry.id, messages.length > 0]));
  const archived = rows.filter((row, at) => {
    if (row > compactionRow) return false;
    const { id } = path[at]!;
    const speaks = !compaction.is(path[at]!) && contextOfPath([path[at]!]).messages.length > 0;
    return !shown.has(id) || (row < compactionRow && speaks && !shown.get(id));
  });
  return { compactionRow, archived };
}

test("archived messages are the same as after reading the whole path, and no message is read for them", async () => {
  let withEdits = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(seed, { minLength: 1, maxLength: 30 }), fc.nat(), async (seeds, at) => {
      const tree = await treeOf(seeds);
      const leafRow = at % tree.length;
      const expected = archivedByReading(tree, leafRow);
      const reading = vi.spyOn(tree, "entryAt");
      const bytes = vi.spyOn(tree, "bytesAt");
      const rows = archivedRows({ tree, leafId: tree.idAt(leafRow) });
      const read = [...reading.mock.calls, ...bytes.mock.calls].map(([row]) => tree.kindAt(row).type);
      expect(read.filter((type) => type !== compaction.type && type !== contextEdit.type)).toEqual([]);
      const archived = seeds.flatMap((_, row) => (rows.has(row) ? row : []));
      expect({ compactionRow: rows.compactionRow, archived }).toEqual(expected);
      expect(rows.count).toBe(archived.length);
      if (read.includes(contextEdit.type) && archived.length > 0) withEdits++;
    }),
    { numRuns: 2_000 },
  );
  expect(withEdits).toBeGreaterThan(0);
});

test("hidden messages are the same as after reading the whole path, with or without a compaction", async () => {
  let found = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(seed, { minLength: 1, maxLength: 30 }), fc.nat(), async (seeds, at) => {
      const tree = await treeOf(seeds.filter(({ is }) => is !== "compaction"));
      fc.pre(tree.length > 0);
      const leafRow = at % tree.length;
      const path = pathRows(tree, leafRow).map((row) => tree.entryAt(row));
      const isSaid = new Map(path.map((entry) => [entry.id, contextOfPath([entry]).messages.length > 0]));
      const silent = projectPath(path).filter(({ entry, messages }) => isSaid.get(entry.id) && !messages[0]);
      const hidden = rowsHidden({ tree, leafId: tree.idAt(leafRow) });
      expect([...hidden].sort((a, b) => a - b)).toEqual(silent.map(({ entry }) => tree.row(entry.id)));
      found += hidden.size;
    }),
    { numRuns: 500 },
  );
  expect(found).toBeGreaterThan(0);
});
