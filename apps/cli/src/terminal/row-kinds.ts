import { branchSummary, compaction, message, roleAt, type Tree } from "@espalier/session-tree";

/** What a row is to a reader. */
export type RowKind = "user" | "assistant" | "toolResult" | "compaction" | "branch" | "other" | "beside";

/** Codes of kinds, as a column of bytes keeps them; 0 is not known yet. */
const KINDS: readonly (RowKind | undefined)[] = [
  undefined,
  "user",
  "assistant",
  "toolResult",
  "compaction",
  "branch",
  "other",
  "beside",
];

/**
 * What the rows of a tree are, found when somebody asks and kept: of a message no more is read than the head of its
 * line.
 */
export class RowKinds {
  readonly #tree: Tree;
  #codes: Uint8Array;

  constructor(tree: Tree) {
    this.#tree = tree;
    this.#codes = new Uint8Array(tree.length);
  }

  of(row: number): RowKind {
    if (row >= this.#codes.length) this.#grow();
    const known = KINDS[this.#codes[row]!];
    if (known) return known;
    const found = kindOfRow(this.#tree, row);
    this.#codes[row] = KINDS.indexOf(found);
    return found;
  }

  #grow(): void {
    const codes = new Uint8Array(Math.ceil(this.#tree.length * 1.25));
    codes.set(this.#codes);
    this.#codes = codes;
  }
}

function kindOfRow(tree: Tree, row: number): RowKind {
  const kind = tree.kindAt(row);
  if (kind.type === compaction.type) return "compaction";
  if (kind.type === branchSummary.type) return "branch";
  if (kind.type !== message.type) return kind.movesLeaf ? "other" : "beside";
  const role = roleAt(tree, row);
  return role === "user" || role === "assistant" || role === "toolResult" ? role : "other";
}
