import type { Tree } from "./tree.ts";

/** Who follows whom: two columns of row numbers, made in one pass when somebody asks for children. */
export class ChildIndex {
  readonly #first: Int32Array;
  readonly #next: Int32Array;
  /** Rows without a parent, orphans among them, in file order. */
  readonly roots: readonly number[];

  constructor(tree: Tree) {
    const { index } = tree;
    this.#first = new Int32Array(index.length).fill(-1);
    this.#next = new Int32Array(index.length).fill(-1);
    const roots: number[] = [];
    // From the last row to the first, so that each list comes out in file order.
    for (let row = index.length - 1; row >= 0; row--) {
      const parent = index.parent(row);
      if (parent < 0) roots.push(row);
      else {
        this.#next[row] = this.#first[parent]!;
        this.#first[parent] = row;
      }
    }
    this.roots = roots.reverse();
  }

  /** The row's children in file order. */
  *of(row: number): Generator<number> {
    for (let child = this.#first[row]!; child >= 0; child = this.#next[child]!) yield child;
  }

  /** True when nothing follows the row. */
  isEmpty(row: number): boolean {
    return this.#first[row]! < 0;
  }
}
