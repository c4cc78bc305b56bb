import { type ByteView, forEachLine, isSpace, type LineVisitor } from "@espalier/jsonl-stream";
import {
  FORMAT_VERSION,
  formatMany,
  type SessionHeader,
  type SessionIssue,
  type SessionIssueKind,
} from "../entry/entry.ts";
import { type Entry, entryKinds, kindCode } from "../entry/kinds.ts";
import {
  EntryScan,
  idIn,
  kindIn,
  parentIn,
  readLineParts,
  readSessionLine,
  type SessionLine,
  scanEntry,
} from "../entry/line.ts";
import { FastLineScanner } from "./compiled-scan.ts";
import { IdHashes, type RowIndex } from "./entry-index.ts";

/** Adds the lines of a log to an index, in file order, and collects their problems. */
export class LineIntake {
  /** Header of the log; undefined when there is no header before the first entry. */
  header: SessionHeader | undefined;
  /** Row of the last line that is an entry, or of the earlier line that it repeats; -1 when there are no entries. */
  lastRow = -1;
  /** Problems of the lines, in file order. */
  readonly issues: SessionIssue[] = [];
  readonly #index: RowIndex;
  readonly #scanner: FastLineScanner;
  readonly #buffer = new RowBuffer();
  #lines: LineSource;
  /** Number of the current line. */
  #line = 1;
  /** Number of lines so far that are a header or an entry. */
  #usable = 0;
  /** Offset of the header; -1 when there is none yet. */
  #headerOffset = -1;
  /** End of the last line with a newline, and the number of the next line: the next {@link takeLog} begins there. */
  #end = 0;
  #nextLine = 1;

  /** @param lines reads the bytes of earlier lines; {@link takeLog} uses its view instead */
  constructor(index: RowIndex, lines: LineSource) {
    this.#index = index;
    this.#lines = lines;
    this.#scanner = new FastLineScanner(index.hash.seed);
  }

  /**
   * Adds everything in a log after the lines that were added before. Reads a last line without a newline again, because
   * it may be complete now.
   */
  takeLog(view: ByteView): void {
    let tail = -1;
    let nextLine = this.#nextLine;
    this.#index.expect(view.size);
    this.#lines = view;
    this.#buffer.count = 0;
    // A last line without a newline is read again when the log has grown: it may be complete now.
    if (this.issues.length > 0 && isTail(this.issues.at(-1)!)) this.issues.pop();
    const visit: LineVisitor = (block, start, end, offset, line, terminated) => {
      if (terminated) nextLine = line + 1;
      else tail = offset;
      this.take(block, start, end, offset, line, terminated);
    };
    forEachLine(view, visit, { from: this.#end, lineNumber: this.#nextLine, finder: this.#scanner });
    this.settle();
    this.#nextLine = nextLine;
    this.#end = tail < 0 ? view.size : tail;
  }

  /** Takes the next line, with the arguments of a visitor of `forEachLine`. */
  take(
    block: Uint8Array,
    start: number,
    end: number,
    offset: number,
    line: number,
    terminated: boolean,
  ): void {
    if (terminated && this.#takeFast(block, start, end, offset, line)) return;
    this.#addBuffered();
    this.#line = line;
    // A byte order mark at the beginning of a log is not part of its first line.
    if (end > start) this.#takeSlowly(block.subarray(start, end), offset === 0 ? start : offset, terminated);
  }

  /** Completes the rows and issues. Call it after the last {@link take}; {@link takeLog} calls it. */
  settle(): void {
    this.#addBuffered();
    this.#index.settle();
  }

  /** Takes nearly all lines, without decoding or parsing. Returns false when the line needs {@link #takeSlowly}. */
  #takeFast(block: Uint8Array, start: number, end: number, offset: number, line: number): boolean {
    if (this.#usable === 0) return false;
    const rows = this.#buffer;
    // The buffer holds one row per line, in consecutive lines. The entries of a line with several entries come one by
    // one.
    if (rows.count > 0 && line !== rows.firstLine + rows.count) this.#addBuffered();
    const scanner = this.#scanner;
    if (!scanner.scan(block, start, end, offset)) return false;
    const scan = scanner.entry;
    const kind = kindIn(block, scan.typeStart, scan.typeEnd);
    if (kind < 0) return false;
    const at = rows.count++;
    if (at === 0) rows.firstLine = line;
    rows.offset[at] = offset;
    rows.length[at] = end - start;
    rows.kind[at] = kind;
    rows.isRoot[at] = scan.parentStart < 0 ? 1 : 0;
    if (scanner.isUsual) scanner.hashesInto(rows.ids, rows.parents, at);
    else {
      const { hash } = this.#index;
      hash.hashInto(rows.ids, at, block, scan.idStart, scan.idEnd);
      if (scan.parentStart >= 0) hash.hashInto(rows.parents, at, block, scan.parentStart, scan.parentEnd);
    }
    if (rows.isFull) this.#addBuffered();
    return true;
  }

  /** Adds the buffered rows. Call it before any other row is added. */
  #addBuffered(): void {
    const rows = this.#buffer;
    const index = this.#index;
    index.prefetch?.(rows.ids, rows.count);
    for (let at = 0; at < rows.count; at++) {
      let parent = ROOT;
      if (rows.isRoot[at] === 0) {
        index.hash.recall(rows.parents, at);
        parent = orOrphan(index.parentOfHash());
      }
      index.hash.recall(rows.ids, at);
      const older = index.rowOfHash();
      if (older < 0 && parent !== ORPHAN)
        this.lastRow = index.add(-1, parent, rows.kind[at]!, rows.offset[at]!, rows.length[at]!);
      else {
        this.#line = rows.firstLine + at;
        this.#add(older, parent, rows.kind[at]!, rows.offset[at]!, rows.length[at]!);
      }
    }
    rows.count = 0;
  }

  #takeSlowly(bytes: Uint8Array, offset: number, terminated: boolean): void {
    const parts = readLineParts(bytes);
    const first = parts[0]!;
    if (first.is === "blank") return;
    if (first.is === "corrupt" && parts.length === 1) {
      if (terminated) this.#takeDamaged(bytes, offset, first.message);
      else {
        const message = `The last line was cut after ${formatMany(bytes.length, "byte")}.`;
        this.#note("torn-tail", offset, null, message);
      }
      return;
    }
    for (const [at, part] of parts.entries()) {
      if (part.is === "header") this.#takeHeader(part.header, offset);
      else if (part.is === "corrupt") this.#note("corrupt", offset + part.from, null, `${part.message}.`);
      else if (part.is === "entry") {
        let end = parts[at + 1]?.from ?? bytes.length;
        // Space between two entries belongs to neither, so an entry's bytes are the same whatever follows it.
        if (at + 1 < parts.length) while (isSpace(bytes[end - 1]!)) end--;
        this.#takeEntry(part.entry, offset + part.from, end - part.from, parts[at - 1]);
      }
      if (part.is !== "corrupt") this.#usable++;
    }
    if (terminated) return;
    const message = "The last line has no newline; it is complete and counts.";
    this.#note("unterminated-tail", offset, null, message);
  }

  #takeHeader(header: SessionHeader, offset: number): void {
    if (offset === this.#headerOffset) return;
    if (this.#usable > 0) {
      const message = "This header is after another header or an entry, so it does not count.";
      this.#note("duplicate-header", offset, null, message);
      return;
    }
    this.header = header;
    this.#headerOffset = offset;
    if (header.version <= FORMAT_VERSION) return;
    const message = `The session has format version ${header.version}; this program writes up to ${FORMAT_VERSION}, so the session can only be read.`;
    this.#note("version", offset, null, message);
  }

  /** @param before the previous part of the same line */
  #takeEntry(entry: Entry, offset: number, length: number, before: SessionLine | undefined): void {
    if (this.#isTaken(offset)) return;
    const noHeader = "The first line is not a session header; the session can only be read.";
    if (this.#usable === 0) this.#note("no-header", offset, null, noHeader);
    if (before?.is === "corrupt")
      this.#note("salvaged", offset, entry.id, "An entry was found after a cut line; it counts.");
    else if (before)
      this.#note("glued", offset, entry.id, "An entry is on the same line as the one before it; both count.");
    const parent = entry.parentId === null ? ROOT : orOrphan(this.#index.rowOf(entry.parentId));
    const older = this.#index.rowOf(entry.id);
    this.#add(older, parent, kindCode(entry.type), offset, length, entry.id);
  }

  /**
   * Adds a damaged line. If its type, id and parent can be read, the entry keeps its position in the tree, so that its
   * descendants stay connected. Otherwise only an issue is added.
   */
  #takeDamaged(bytes: Uint8Array, offset: number, message: string): void {
    const scan = new EntryScan();
    const kind = scanEntry(bytes, 0, bytes.length, scan) ? kindIn(bytes, scan.typeStart, scan.typeEnd) : -1;
    if (kind < 0) {
      const lost = `${formatMany(bytes.length, "byte")} ${bytes.length === 1 ? "is" : "are"} lost`;
      this.#note("corrupt", offset, null, `${message}: ${lost}.`);
      return;
    }
    const id = idIn(bytes, scan);
    this.#note("corrupt", offset, id, `${message}: the entry's content is lost, its position is kept.`);
    const parentId = parentIn(bytes, scan);
    const parent = parentId === null ? ROOT : orOrphan(this.#index.rowOf(parentId));
    const older = this.#index.rowOf(id);
    this.#add(older, parent, kind, offset, bytes.length, id);
  }

  /**
   * Returns whether a row already begins at `offset`: a whole line without a newline is read again when the log has
   * grown.
   */
  #isTaken(offset: number): boolean {
    const { length } = this.#index;
    return length > 0 && offset <= this.#index.offset(length - 1);
  }

  /**
   * Adds a row with the id of the last lookup. `older` is the row that the lookup found; `id` is read from the line
   * when it is missing.
   */
  #add(older: number, parent: number, kind: number, offset: number, length: number, id?: string): void {
    if (this.#isTaken(offset)) return;
    if (older >= 0 && this.#isRepeated(older, parent, kind, offset, length)) {
      this.lastRow = older;
      const message = "The line repeats an earlier one; it counts once.";
      this.#note("identical-duplicate", offset, id ?? this.#idAt(offset, length), message);
      return;
    }
    this.lastRow = this.#index.add(older, parent, kind, offset, length);
    if (older < 0 && parent !== ORPHAN) return;
    const name = id ?? this.#idAt(offset, length);
    if (older >= 0) {
      const message = "Another entry above has the same id; a reference is to the nearest one above it.";
      this.#note("duplicate-id", offset, name, message);
    }
    if (parent === ORPHAN) {
      const message = "The parent is not above this entry; the entry becomes a root.";
      this.#note("orphan", offset, name, message);
    }
  }

  /** Returns the id of a line that was scanned before, so scanning it again works. */
  #idAt(offset: number, length: number): string {
    const bytes = this.#lines.read(offset, length);
    const scan = new EntryScan();
    scanEntry(bytes, 0, bytes.length, scan);
    return idIn(bytes, scan);
  }

  /**
   * Returns whether the line at `offset` repeats a row's line with the same meaning. False when its parent is another
   * entry now.
   */
  #isRepeated(row: number, parent: number, kind: number, offset: number, length: number): boolean {
    if (this.#index.lineLength(row) !== length || this.#index.parent(row) !== parent) return false;
    const before = this.#lines.read(this.#index.offset(row), length);
    const here = this.#lines.read(offset, length);
    if (!before.every((byte, i) => byte === here[i])) return false;
    const { leafTarget } = entryKinds[kind]!;
    if (!leafTarget || parent >= 0) return true;
    // A repeated line without a parent in the log still has a target, which may be another entry now.
    const line = readSessionLine(here);
    return line.is !== "entry" || leafTarget(line.entry) === null;
  }

  #note(kind: SessionIssueKind, offset: number, id: string | null, message: string): void {
    // A line that is read again when the log has grown gets one issue only.
    for (let at = this.issues.length - 1; at >= 0 && this.issues[at]!.offset >= offset; at--)
      if (this.issues[at]!.kind === kind && this.issues[at]!.offset === offset) return;
    this.issues.push({ kind, line: this.#line, offset, id, message });
  }
}

const isTail = ({ kind }: SessionIssue): boolean => kind === "torn-tail" || kind === "unterminated-tail";
const orOrphan = (row: number): number => (row < 0 ? ORPHAN : row);

/** Source of the bytes of earlier lines, by the offset and length with which they were taken. */
export type LineSource = Pick<ByteView, "read">;

/** Value for the parent's row of a root. */
export const ROOT = -1;

/** Value for the parent's row of an entry whose parent is not above it. The entry counts as a root and is reported. */
export const ORPHAN = -2;

/** Maximum number of rows in the buffer: enough for overlapping lookups in the table of ids, and few enough for the cache. */
const MOST_BUFFERED = 256;

/** Rows that were scanned and are not in the index yet. Their ids are looked up many at once. */
class RowBuffer {
  count = 0;
  /** Number of the first row's line. The other rows are on the following lines. */
  firstLine = 1;
  readonly ids = new IdHashes(MOST_BUFFERED);
  readonly parents = new IdHashes(MOST_BUFFERED);
  readonly isRoot = new Uint8Array(MOST_BUFFERED);
  readonly kind = new Uint8Array(MOST_BUFFERED);
  readonly offset = new Float64Array(MOST_BUFFERED);
  readonly length = new Uint32Array(MOST_BUFFERED);

  get isFull(): boolean {
    return this.count === MOST_BUFFERED;
  }
}
