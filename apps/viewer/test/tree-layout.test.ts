import type { Tree } from "@espalier/session-tree";
import { OutlineRows, outlineOf } from "@espalier/viewer/model";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { layOutTree } from "../src/page/source/session-model.ts";
import { arbitraryTree } from "./arbitrary-tree.ts";

function rowsOf(tree: Tree): OutlineRows {
  const rows = new OutlineRows();
  rows.add(outlineOf(tree));
  return rows;
}

const NOTHING: ReadonlySet<number> = new Set();

describe("the lines of a drawing", () => {
  test("show every entry once, below its parent, with the path of the tip in the first lane", () => {
    fc.assert(
      fc.property(arbitraryTree, fc.nat(), fc.boolean(), (tree, at, fold) => {
        const rows = rowsOf(tree);
        const path = rows.path(at % tree.length);
        const tip = path.at(-1) ?? -1;
        const layout = layOutTree(rows, { tip, fold, opened: NOTHING, standsOut: NOTHING });
        const drawn = Array.from({ length: tree.length }, (_, row) => row).filter(
          (row) => rows.kindAt(row).movesLeaf,
        );
        expect(layout.counts.reduce((sum, count) => sum + count, 0)).toBe(drawn.length);
        for (const row of drawn) expect(layout.lineOf[row]).toBeGreaterThanOrEqual(0);
        for (let line = 0; line < layout.rows.length; line++) {
          expect(layout.parents[line]).toBeLessThan(line);
          // A lane that passes a line is never the line's own.
          expect((layout.passing[line]! >>> layout.lanes[line]!) & 1).toBe(0);
        }
        for (const row of path)
          expect([layout.active[row], layout.lanes[layout.lineOf[row]!]]).toEqual([1, 0]);
        expect(layout.width).toBeLessThanOrEqual(2 + Math.ceil(Math.log2(tree.length + 1)));
      }),
    );
  });

  test("show an unfolded run entry by entry, and change nothing else", () => {
    fc.assert(
      fc.property(arbitraryTree, (tree) => {
        const rows = rowsOf(tree);
        const options = { tip: rows.path(tree.length - 1).at(-1) ?? -1, fold: true, standsOut: NOTHING };
        const folded = layOutTree(rows, { ...options, opened: NOTHING });
        const line = folded.counts.findIndex((count) => count > 1);
        if (line < 0) return;
        const opened = layOutTree(rows, { ...options, opened: new Set([folded.rows[line]!]) });
        const count = folded.counts[line]!;
        expect(opened.rows.length).toBe(folded.rows.length + count - 1);
        expect([...opened.counts.subarray(line, line + count)]).toEqual(
          Array.from({ length: count }, () => 1),
        );
      }),
    );
  });

  test("of a chain of a hundred thousand entries are laid out without recursion", () => {
    const rows = new OutlineRows();
    const length = 100_000;
    rows.add({
      from: 0,
      steps: Array.from({ length }, (_, at) => Math.min(1, at)),
      kinds: "ua".repeat(length / 2),
    });
    const layout = layOutTree(rows, { tip: length - 1, fold: false, opened: NOTHING, standsOut: NOTHING });
    expect([layout.rows.length, layout.width]).toEqual([length, 1]);
  });
});
