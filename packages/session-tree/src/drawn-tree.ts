import { movingRow } from "./leaf.ts";
import type { Tree } from "./tree.ts";

/** As much of a tree as its shape is made of: a `Tree` is one, and so is what somebody was told of a tree elsewhere. */
export interface TreeShape {
  readonly index: {
    readonly length: number;
    /** The row of the parent; negative for a root. */
    parent(row: number): number;
  };
  /** Whether the entry of a row is part of the conversation, or stands beside it (a label, a bill). */
  kindAt(row: number): { readonly movesLeaf: boolean };
}

/**
 * The shape of a drawing: entries that move the leaf, each under the nearest one above it that does. Of the children of
 * an entry one goes straight on (the one towards the leaf, else the one with most below it) and the others stand aside,
 * so that a drawing is never indented deeper than the logarithm of what it shows.
 */
export class DrawnTree {
  /** Rows without a parent in the drawing, file order. */
  readonly roots: readonly number[];
  readonly #straight: Int32Array;
  /** First child and next sibling; the one that goes straight on is among them. */
  readonly #first: Int32Array;
  readonly #next: Int32Array;
  readonly #active: Uint8Array;

  /** @param leafRow the row of the leaf; -1 when it is before the first entry */
  constructor(tree: TreeShape, leafRow: number) {
    const { length } = tree.index;
    const parent = drawnParents(tree);
    this.#active = new Uint8Array(length);
    for (let row = leafRow; row >= 0; row = parent[row]!) this.#active[row] = 1;
    this.#straight = new Int32Array(length).fill(-1);
    this.#first = new Int32Array(length).fill(-1);
    this.#next = new Int32Array(length).fill(-1);
    const size = new Int32Array(length).fill(1);
    const roots: number[] = [];
    // From the last row to the first: all that is below an entry is counted before the entry itself.
    for (let row = length - 1; row >= 0; row--) {
      if (!tree.kindAt(row).movesLeaf) continue;
      const above = parent[row]!;
      if (above < 0) {
        roots.push(row);
        continue;
      }
      size[above] = size[above]! + size[row]!;
      this.#next[row] = this.#first[above]!;
      this.#first[above] = row;
      const rival = this.#straight[above]!;
      const wins =
        rival < 0 || this.#active[row] === 1 || (this.#active[rival] === 0 && size[row]! > size[rival]!);
      if (wins) this.#straight[above] = row;
    }
    this.roots = roots.reverse();
  }

  /** True for rows on the path of the leaf. */
  isActive(row: number): boolean {
    return this.#active[row] === 1;
  }

  /** The child that goes straight on; -1 when there is none. */
  straight(row: number): number {
    return this.#straight[row]!;
  }

  /** True when more than one entry follows. */
  parts(row: number): boolean {
    const first = this.#first[row]!;
    return first >= 0 && this.#next[first]! >= 0;
  }

  /** The children that stand aside, file order. */
  aside(row: number): number[] {
    const rows: number[] = [];
    for (let child = this.#first[row]!; child >= 0; child = this.#next[child]!)
      if (child !== this.#straight[row]) rows.push(child);
    return rows;
  }
}

/** For each row: the nearest one above that moves the leaf; -1 for a root. Linear: parents come before children. */
function drawnParents(tree: TreeShape): Int32Array {
  const { index } = tree;
  const parents = new Int32Array(index.length);
  for (let row = 0; row < index.length; row++) {
    const above = index.parent(row);
    parents[row] = above < 0 ? -1 : tree.kindAt(above).movesLeaf ? above : parents[above]!;
  }
  return parents;
}

/** The row that a drawing marks as the leaf; -1 before the first entry. */
export function drawnLeaf(tree: Tree, leafId: string | null): number {
  return leafId === null ? -1 : movingRow(tree, tree.row(leafId));
}
