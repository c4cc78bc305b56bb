import { DrawnTree, type TreeShape } from "@espalier/session-tree";

/**
 * The rows of a tree as they stand on a page, root first: the path of the leaf straight down, each branch that parts
 * from it indented behind the entry it parts from, entries beside the conversation behind the one they were written
 * under. Places on the page are positions; nothing here reads what an entry says.
 */
export class TreeOrder {
  readonly shape: DrawnTree;
  /** Rows by position. */
  readonly rows: Int32Array;
  /** Positions by row; -1 for a row that has no place. */
  readonly positions: Int32Array;
  /** How deep a position is indented. */
  readonly depths: Uint8Array;
  /** Positions at which a branch begins that stands aside, ascending, and the position behind each one's last. */
  readonly branchStarts: readonly number[];
  readonly branchEnds: ReadonlyMap<number, number>;
  /** How many positions there are. */
  readonly length: number;

  constructor(tree: TreeShape, leafRow: number) {
    const count = tree.index.length;
    this.shape = new DrawnTree(tree, leafRow);
    this.rows = new Int32Array(count);
    this.positions = new Int32Array(count).fill(-1);
    this.depths = new Uint8Array(count);
    const beside = rowsBeside(tree);
    const starts: number[] = [];
    const ends = new Map<number, number>();
    /** Branches that are being laid out, from the outermost on. */
    const open: { start: number; depth: number }[] = [];
    const waiting = this.#firstBranches();
    let length = 0;
    const place = (row: number, depth: number) => {
      this.rows[length] = row;
      this.positions[row] = length;
      this.depths[length] = Math.min(depth, 255);
      length++;
      const under = beside.get(row);
      if (under) for (const other of under) place(other, depth);
    };
    for (const row of beside.get(-1) ?? []) place(row, 0);
    for (let branch = waiting.pop(); branch; branch = waiting.pop()) {
      const { row, depth, isAside } = branch;
      while (open.length > 0 && open.at(-1)!.depth >= depth + (isAside ? 0 : 1))
        ends.set(open.pop()!.start, length);
      if (isAside) {
        open.push({ start: length, depth });
        starts.push(length);
      }
      for (let at = row; at >= 0; at = this.shape.straight(at)) {
        place(at, depth);
        if (!this.shape.parts(at)) continue;
        waiting.push({ row: this.shape.straight(at), depth, isAside: false });
        for (const child of this.shape.aside(at).reverse())
          waiting.push({ row: child, depth: depth + 1, isAside: true });
        break;
      }
    }
    for (const { start } of open) ends.set(start, length);
    this.length = length;
    this.branchStarts = starts;
    this.branchEnds = ends;
  }

  #firstBranches(): Branch[] {
    const { roots } = this.shape;
    const straight = roots.find((row) => this.shape.isActive(row)) ?? roots.at(-1);
    if (straight === undefined) return [];
    const aside = roots.filter((row) => row !== straight).reverse();
    return [
      { row: straight, depth: 0, isAside: false },
      ...aside.map((row) => ({ row, depth: 1, isAside: true })),
    ];
  }
}

/** A branch that still has to be laid out. */
interface Branch {
  row: number;
  depth: number;
  isAside: boolean;
}

/** Rows that do not move the leaf, by the nearest row above them that does (-1: none). */
function rowsBeside(tree: TreeShape): Map<number, number[]> {
  const beside = new Map<number, number[]>();
  for (let row = 0; row < tree.index.length; row++) {
    if (tree.kindAt(row).movesLeaf) continue;
    let above = tree.index.parent(row);
    while (above >= 0 && !tree.kindAt(above).movesLeaf) above = tree.index.parent(above);
    const under = Math.max(above, -1);
    const rows = beside.get(under);
    if (rows) rows.push(row);
    else beside.set(under, [row]);
  }
  return beside;
}
