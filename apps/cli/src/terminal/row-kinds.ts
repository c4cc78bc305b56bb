import { branchSummary, compaction, message, type Tree } from "@espalier/session-tree";

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

/** How much of a line is read to find the role of its message; it stands near the beginning, the line is parsed if not. */
const HEAD_BYTES = 400;

/** `"role":"user"` right behind the brace of `message`. Inside of a text the quotation marks would be escaped. */
const ROLE = /"message"\s*:\s*\{\s*"role"\s*:\s*"(\w+)"/;

const decoder = new TextDecoder("latin1");

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
  const length = Math.min(HEAD_BYTES, tree.index.lineLength(row));
  const head = decoder.decode(tree.view.read(tree.index.offset(row), length));
  const role = ROLE.exec(head)?.[1] ?? roleInBody(tree, row);
  return role === "user" || role === "assistant" || role === "toolResult" ? role : "other";
}

function roleInBody(tree: Tree, row: number): string | undefined {
  const entry = tree.entryAt(row);
  const role: unknown = message.is(entry) ? entry.message?.role : undefined;
  return typeof role === "string" ? role : undefined;
}
