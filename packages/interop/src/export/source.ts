import {
  type Entry,
  label,
  pathMarks,
  pathRows,
  type Redact,
  Redactor,
  readSessionLine,
  redactEntry,
  redactHeader,
  rowOfLeaf,
  type SessionHeader,
  type Tree,
} from "@espalier/session-tree";

/** A tree, or an object with a tree and a leaf (a session). */
export type ExportableSession = Tree | { readonly tree: Tree; readonly leafId?: string | null };

/**
 * A session read for an export. Entries are read from their lines and not from memory, so that a running session and
 * one that was opened again give the same text.
 */
export class ExportSource {
  readonly tree: Tree;
  readonly redactor: Redactor | undefined;
  /** Row in which the path ends; -1 before the first entry. */
  readonly endRow: number;

  /**
   * @param at end of the path; null: before the first entry; default: the leaf. For an entry that cannot be a leaf, its
   * nearest ancestor that can
   *
   * @throws EspalierError `unknown-entry`
   */
  constructor(session: ExportableSession, at: string | null | undefined, redact: Redact | undefined) {
    const { tree, leafId } = "tree" in session ? session : { tree: session };
    this.tree = tree;
    this.redactor = redact && new Redactor(redact, { isId: (text) => this.tree.has(text) });
    this.endRow = rowOfLeaf(this.tree, at === undefined ? leafId : at);
  }

  /** First line of the log; null when it has none. */
  get header(): SessionHeader | null {
    const { header } = this.tree;
    return header === undefined ? null : this.redactor ? redactHeader(header, this.redactor) : header;
  }

  /** Id of the path's end; null before the first entry. */
  get endId(): string | null {
    return this.endRow < 0 ? null : this.tree.idAt(this.endRow);
  }

  /** Returns the rows of the path, root first. */
  pathRows(): number[] {
    return pathRows(this.tree, this.endRow);
  }

  /** Returns the entry in the line of a row, redacted. For an unreadable line, the tree's placeholder. */
  entryAt(row: number): Entry {
    const line = readSessionLine(this.tree.bytesAt(row));
    const entry = line.is === "entry" ? line.entry : this.tree.entryAt(row);
    return this.redactor ? redactEntry(entry, this.redactor) : entry;
  }

  /** Redacts a text of the session that is not in an entry (a label, a name). */
  text(text: string): string {
    return this.redactor ? this.redactor.text(text) : text;
  }
}

/**
 * Returns the rows that make a session of one path: the path itself, and attached entries that only concern the path
 * (labels, names, usage). Parents come before children, and a log of these rows opens at the path's end.
 */
export function rowsAlong(source: ExportSource): number[] {
  const { tree, endRow } = source;
  const taken = pathMarks(tree, endRow);
  const before: number[] = [];
  const after: number[] = [];
  // Rows below the end come after it, all others before it; otherwise the last line would be another leaf.
  const belowEnd = new Uint8Array(tree.length);
  for (let row = 0; row < tree.length; row++) {
    const parent = tree.index.parent(row);
    if (parent === endRow || (parent >= 0 && belowEnd[parent] === 1)) belowEnd[row] = 1;
    if (row === endRow) continue;
    if (taken[row] !== 1) {
      if (!isBeside(tree, row, taken)) continue;
      taken[row] = 1;
    }
    (belowEnd[row] === 1 ? after : before).push(row);
  }
  return endRow < 0 ? [...before, ...after] : [...before, endRow, ...after];
}

/** Returns whether a row is an attached entry with a selected parent and, for a label, a selected target. */
function isBeside(tree: Tree, row: number, taken: Uint8Array): boolean {
  const parent = tree.index.parent(row);
  const kind = tree.kindAt(row);
  if (parent < 0 || taken[parent] !== 1 || kind.movesLeaf || kind.leafTarget) return false;
  if (kind.type !== label.type) return true;
  const entry = tree.entryAt(row);
  if (!label.is(entry)) return false;
  const target = tree.index.rowAbove(entry.targetId, row);
  return target >= 0 && taken[target] === 1;
}
