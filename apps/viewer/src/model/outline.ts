import { entryKinds, isBookkeepingAt, roleAt, type Tree, type TreeShape } from "@espalier/session-tree";

/**
 * Parents and kinds of a range of a session's entries, in one or two bytes per entry: enough to draw the tree. Rows are
 * numbers in file order, from 0. The content of entries is requested by row when it becomes visible.
 */
export interface Outline {
  /** First row of the range. */
  from: number;
  /** For each row, the distance up to its parent's row; 0 for a root. */
  steps: number[];
  /** For each row, one {@link RowKind}. */
  kinds: string;
}

/** Kind of an entry, as a letter. */
export type RowKind = keyof typeof ROW_KINDS;

/** Kinds by letter, with their names for people. */
export const ROW_KINDS = {
  u: "user",
  a: "answer",
  t: "tool result",
  b: "shell",
  s: "system",
  x: "message of an extension",
  c: "compaction",
  f: "branch summary",
  e: "edit of the context",
  m: "model",
  h: "thinking level",
  d: "state of an extension",
  r: "reminder",
  l: "label",
  n: "name",
  g: "usage",
  j: "move of the leaf",
  "?": "unknown",
} as const;

/**
 * Letters of the format's kinds. Another kind is drawn as an extension's message if the model reads its entries. A kind
 * that does not move the leaf needs a letter.
 */
const OF_TYPES: Readonly<Record<string, RowKind>> = {
  compaction: "c",
  branch_summary: "f",
  custom_message: "x",
  context_edit: "e",
  model_change: "m",
  thinking_level_change: "h",
  custom: "d",
  label: "l",
  session_info: "n",
  usage: "g",
  leaf: "j",
};

const OF_ROLES: Readonly<Record<string, RowKind>> = {
  user: "u",
  assistant: "a",
  toolResult: "t",
  bashExecution: "b",
  system: "s",
  custom: "x",
};

/** Kinds that are not part of the conversation, as the format defines. */
const BESIDE: ReadonlySet<string> = new Set(
  entryKinds.flatMap(({ type, movesLeaf }) => (movesLeaf ? [] : [OF_TYPES[type] ?? "?"])),
);

/** Kinds on the path that are bookkeeping, consistent with `isBookkeeping` of the session tree. */
export const BOOKKEEPING: ReadonlySet<string> = new Set(["m", "h", "d", "r"]);

/** Describes the rows `[from, to)`. A line is parsed only if its first bytes do not show the role of its message. */
export function outlineOf(tree: Tree, from = 0, to = tree.length): Outline {
  const steps: number[] = [];
  const kinds: string[] = [];
  for (let row = from; row < Math.min(to, tree.length); row++) {
    const parent = tree.index.parent(row);
    steps.push(parent < 0 ? 0 : row - parent);
    kinds.push(kindOfRow(tree, row));
  }
  return { from, steps, kinds: kinds.join("") };
}

function kindOfRow(tree: Tree, row: number): string {
  const { type, toMessages } = tree.kindAt(row);
  const kind =
    type === "message"
      ? kindOfRole(roleAt(tree, row) ?? "")
      : (OF_TYPES[type] ?? (toMessages ? "x" : undefined));
  const isReminder = (kind === "u" || kind === "x") && isBookkeepingAt(tree, row);
  return isReminder ? "r" : (kind ?? "?");
}

const kindOfRole = (role: string): RowKind | undefined =>
  Object.hasOwn(OF_ROLES, role) ? OF_ROLES[role] : undefined;

/** Joined outlines, in the shape that a drawing needs. */
export class OutlineRows implements TreeShape {
  #parent = new Int32Array(1_024);
  #kinds: string[] = [];
  readonly index: TreeShape["index"] = this;

  get length(): number {
    return this.#kinds.length;
  }

  parent(row: number): number {
    return this.#parent[row]!;
  }

  /** Adds rows. Known rows are skipped; rows after a gap are ignored. */
  add({ from, steps, kinds }: Outline): void {
    if (from > this.length) return;
    for (let at = this.length - from; at < steps.length; at++) {
      const row = this.length;
      if (row === this.#parent.length) {
        const grown = new Int32Array(row * 2);
        grown.set(this.#parent);
        this.#parent = grown;
      }
      const step = steps[at]!;
      this.#parent[row] = step === 0 ? -1 : row - step;
      this.#kinds.push(kinds[at] ?? "?");
    }
  }

  kind(row: number): RowKind {
    return this.#kinds[row] as RowKind;
  }

  kindAt(row: number): { readonly movesLeaf: boolean } {
    return BESIDE.has(this.#kinds[row]!) ? STAYS : MOVES;
  }

  /**
   * Returns the rows of the path that ends in a row, root first, without rows that are not part of the conversation.
   */
  path(row: number): number[] {
    const rows: number[] = [];
    for (let at = row; at >= 0; at = this.#parent[at]!) if (this.kindAt(at).movesLeaf) rows.push(at);
    return rows.reverse();
  }
}

const MOVES = { movesLeaf: true };
const STAYS = { movesLeaf: false };
