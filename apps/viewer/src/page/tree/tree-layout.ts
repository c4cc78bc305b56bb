import { DrawnTree } from "@espalier/session-tree";
import type { OutlineRows } from "../../model/outline.ts";

export interface LayoutOptions {
  /** The row whose path goes straight down; -1 before the first entry. */
  tip: number;
  /** True where runs without a notable entry are one line. */
  fold: boolean;
  /** First rows of runs that are open all the same. */
  opened: ReadonlySet<number>;
  /** Rows that are never inside a run: labelled ones. */
  standsOut: { has(row: number): boolean };
}

/** Runs shorter than this stay as they are. */
const SHORTEST_RUN = 3;

/** Kinds that stand out of a run: what people and summaries say. */
const OUTSTANDING = new Set(["u", "c", "f", "x", "b"]);

/** The lines of a drawing, from the top. Side branches come right below where they part, the straight one goes on after. */
export interface TreeLayout {
  /** For each line, the row it shows; of a run, the first. */
  rows: Int32Array;
  /** For each line, the row whose words it shows: of a run, the first answer. */
  tellers: Int32Array;
  /** For each line, how many entries it stands for: 1, or those of a run. */
  counts: Int32Array;
  /** For each line, its lane, from 0. */
  lanes: Uint8Array;
  /** For each line, the line it follows; -1 for a root. */
  parents: Int32Array;
  /** For each line, one bit for each lane that passes by. */
  passing: Uint32Array;
  /** Of those, the lanes of the path of the tip. */
  passingActive: Uint32Array;
  /** For each line, 1 when something goes straight on below. */
  goesOn: Uint8Array;
  /** For each row, its line; -1 for those beside the conversation. */
  lineOf: Int32Array;
  /** For each row, 1 on the path of the tip. */
  active: Uint8Array;
  /** Number of lanes. */
  width: number;
}

export function layOutTree(tree: OutlineRows, options: LayoutOptions): TreeLayout {
  const shape = new DrawnTree(tree, options.tip);
  const length = tree.length;
  const layout: TreeLayout = {
    rows: new Int32Array(length),
    tellers: new Int32Array(length),
    counts: new Int32Array(length),
    lanes: new Uint8Array(length),
    parents: new Int32Array(length),
    passing: new Uint32Array(length),
    passingActive: new Uint32Array(length),
    goesOn: new Uint8Array(length),
    lineOf: new Int32Array(length).fill(-1),
    active: new Uint8Array(length),
    width: 0,
  };
  const lines = placeLines(tree, shape, options, layout);
  for (let row = 0; row < length; row++) layout.active[row] = shape.isActive(row) ? 1 : 0;
  markPassing(layout, lines);
  return {
    ...layout,
    rows: layout.rows.subarray(0, lines),
    tellers: layout.tellers.subarray(0, lines),
    counts: layout.counts.subarray(0, lines),
    lanes: layout.lanes.subarray(0, lines),
    parents: layout.parents.subarray(0, lines),
    passing: layout.passing.subarray(0, lines),
    passingActive: layout.passingActive.subarray(0, lines),
    goesOn: layout.goesOn.subarray(0, lines),
  };
}

/** A branch that is still to be placed. */
interface Waiting {
  row: number;
  lane: number;
  /** The line it follows. */
  parent: number;
}

/** Returns the number of lines. */
function placeLines(tree: OutlineRows, shape: DrawnTree, options: LayoutOptions, layout: TreeLayout): number {
  const { rows, tellers, counts, lanes, parents, goesOn, lineOf } = layout;
  const straightRoot = shape.roots.find((row) => shape.isActive(row)) ?? shape.roots.at(-1) ?? -1;
  const waiting: Waiting[] = [{ row: straightRoot, lane: 0, parent: -1 }];
  for (const row of shape.roots.filter((root) => root !== straightRoot).reverse())
    waiting.push({ row, lane: 1, parent: -1 });
  let line = 0;
  for (let branch = waiting.pop(); branch; branch = waiting.pop()) {
    const { lane } = branch;
    let { row, parent } = branch;
    // Entries of an opened run that are still to come.
    let opened = 0;
    while (row >= 0) {
      let run = opened > 0 ? [row] : runFrom(tree, shape, row, options);
      if (opened > 0) opened--;
      else if (run.length > 1 && options.opened.has(row)) {
        opened = run.length - 1;
        run = [row];
      }
      rows[line] = row;
      tellers[line] = run.find((member) => tree.kind(member) === "a") ?? row;
      lanes[line] = lane;
      parents[line] = parent;
      counts[line] = run.length;
      let last = row;
      for (const member of run) {
        lineOf[member] = line;
        last = member;
      }
      layout.width = Math.max(layout.width, lane + 1);
      parent = line++;
      row = shape.straight(last);
      if (row >= 0) goesOn[parent] = 1;
      if (!shape.parts(last)) continue;
      waiting.push({ row, lane, parent });
      for (const aside of shape.aside(last).reverse()) waiting.push({ row: aside, lane: lane + 1, parent });
      break;
    }
  }
  return line;
}

/** The run that begins with a row: rows in which nothing stands out, one straight below the other. Or the row alone. */
function runFrom(
  tree: OutlineRows,
  shape: DrawnTree,
  row: number,
  { fold, standsOut }: LayoutOptions,
): number[] {
  const inRun = (at: number) =>
    at >= 0 &&
    !OUTSTANDING.has(tree.kind(at)) &&
    !standsOut.has(at) &&
    !shape.parts(at) &&
    shape.straight(at) >= 0;
  const run: number[] = [];
  for (let at = row; fold && inRun(at); at = shape.straight(at)) run.push(at);
  return run.length < SHORTEST_RUN ? [row] : run;
}

/** Between an entry and what goes straight on from it, its lane passes all the lines of the branches aside. */
function markPassing(
  { rows, parents, lanes, active, passing, passingActive }: TreeLayout,
  lines: number,
): void {
  for (let line = 0; line < lines; line++) {
    const parent = parents[line]!;
    if (parent < 0 || lanes[parent] !== lanes[line]) continue;
    const lane = 1 << lanes[line]!;
    const isActive = active[rows[line]!] === 1;
    for (let at = parent + 1; at < line; at++) {
      passing[at]! |= lane;
      if (isActive) passingActive[at]! |= lane;
    }
  }
}
