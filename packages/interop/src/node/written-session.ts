import type { ByteView } from "@espalier/jsonl-stream";
import { type Entry, leafOf, readSessionLine, Tree } from "@espalier/session-tree";
import type { KnownEntry } from "../import-draft.ts";
import { ScratchArea } from "../scratch/scratch-area.ts";
import { ScratchIndex } from "../scratch/scratch-index.ts";
import type { ScratchSpace } from "../scratch/scratch-space.ts";
import { countRows, type SessionCounts } from "../session-counts.ts";

/** A session that is here already, looked at without keeping what it says, or anything of each line, in memory. */
export class WrittenSession {
  readonly #area: ScratchArea;
  readonly #tree: Tree;

  constructor(view: ByteView, scratch: ScratchSpace) {
    this.#area = new ScratchArea(scratch);
    this.#tree = new Tree(view, new ScratchIndex(this.#area));
  }

  /** Where it stands; null before the first entry. */
  get leafId(): string | null {
    return leafOf(this.#tree);
  }

  has(id: string): boolean {
    return this.#tree.has(id);
  }

  /** What an earlier import made of an entry; undefined where there is none. */
  known(id: string): KnownEntry | undefined {
    const row = this.#tree.index.rowOf(id);
    if (row < 0) return undefined;
    const { sourceLines, message } = (this.#entryAt(row) ?? {}) as ImportedEntry;
    return {
      lines: typeof sourceLines === "number" ? sourceLines : 1,
      isBilled: message?.usage !== undefined,
    };
  }

  /** When an entry was written, ISO 8601; undefined where there is none. */
  timeOf(id: string): string | undefined {
    const row = this.#tree.index.rowOf(id);
    return row < 0 ? undefined : this.#entryAt(row)?.timestamp;
  }

  /** Takes in what was appended. */
  takeIn(view: ByteView): void {
    this.#tree.takeIn(view);
  }

  count(): SessionCounts {
    return countRows(this.#tree.index, this.#area);
  }

  /** Gives the scratch space back. */
  close(): void {
    this.#area.close();
  }

  /** Read from its line each time: a tree would keep what it read, thousands of entries however long they are. */
  #entryAt(row: number): Entry | undefined {
    const line = readSessionLine(this.#tree.bytesAt(row));
    return line.is === "entry" ? line.entry : undefined;
  }
}

/** What can be seen of an entry that an import wrote. */
interface ImportedEntry {
  sourceLines?: unknown;
  message?: { usage?: unknown };
}
