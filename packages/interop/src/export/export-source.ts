import {
  type Entry,
  leafRowAt,
  movingRow,
  pathRows,
  type Redact,
  Redactor,
  readSessionLine,
  redactEntry,
  redactHeader,
  type SessionHeader,
  Tree,
} from "@espalier/session-tree";

/** What can be exported: a tree, or something that has one and a leaf (a session). */
export type ExportableSession = Tree | { readonly tree: Tree; readonly leafId?: string | null };

/**
 * A session as its log has it, read for an export: what an entry says comes from its line and not from memory, so that a
 * running session and one that was opened again say the same.
 */
export class ExportSource {
  readonly tree: Tree;
  readonly redactor: Redactor | undefined;
  /** The row in which the wanted path ends; -1 before the first entry. */
  readonly endRow: number;

  /**
   * @param at where the path ends; by default the leaf. For an entry that cannot be a leaf its nearest ancestor that can
   * @throws SessionTreeError `unknown-entry`
   */
  constructor(session: ExportableSession, at: string | null | undefined, redact: Redact | undefined) {
    this.tree = session instanceof Tree ? session : session.tree;
    const leafId = session instanceof Tree ? undefined : session.leafId;
    this.redactor = redact && new Redactor(redact, { isId: (text) => this.tree.has(text) });
    const wanted = at === undefined ? leafId : at;
    this.endRow =
      wanted === undefined
        ? leafRowAt(this.tree, this.tree.lastRow)
        : wanted === null
          ? -1
          : movingRow(this.tree, this.tree.row(wanted));
  }

  /** The first line; null where the log has none. */
  get header(): SessionHeader | null {
    const { header } = this.tree;
    return header === undefined ? null : this.redactor ? redactHeader(header, this.redactor) : header;
  }

  /** Where the path ends; null before the first entry. */
  get endId(): string | null {
    return this.endRow < 0 ? null : this.tree.idAt(this.endRow);
  }

  /** Every row, in file order. */
  allRows(): number[] {
    return Array.from({ length: this.tree.length }, (_, row) => row);
  }

  /** Rows of the path, root first. */
  pathRows(): number[] {
    return pathRows(this.tree, this.endRow);
  }

  /** What the line of a row says, redacted. A line that can no longer be read gives the tree's placeholder. */
  entryAt(row: number): Entry {
    const line = readSessionLine(this.tree.bytesAt(row));
    const entry = line.is === "entry" ? line.entry : this.tree.entryAt(row);
    return this.redactor ? redactEntry(entry, this.redactor) : entry;
  }

  /** A text of the session that is no entry's (a label, a name), redacted. */
  text(text: string): string {
    return this.redactor ? this.redactor.text(text) : text;
  }
}
