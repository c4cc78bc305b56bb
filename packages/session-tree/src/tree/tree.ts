import { type ByteView, EspalierError } from "@espalier/jsonl-stream";
import type { EntryKind, SessionHeader, SessionIssue } from "../entry/entry.ts";
import { type Entry, entryKinds, kindCode, kindOf } from "../entry/kinds.ts";
import { DAMAGED, EntryScan, idIn, placeholder, readSessionLine, scanEntry } from "../entry/line.ts";
import type { OwnKinds } from "../entry/own-kinds.ts";
import { EntryIndex, type RowIndex } from "./entry-index.ts";
import { LineIntake } from "./intake.ts";

/**
 * Maximum number of parsed entries in one generation of the cache, which has two. The older generation is dropped
 * first.
 */
const BODIES_KEPT = 2_048;

/**
 * Maximum bytes of the lines of one generation's entries: 8 MiB, the size of {@link BODIES_KEPT} lines of 4 kB. An
 * entry with a longer line is not cached.
 */
const BODY_BYTES_KEPT = 1 << 23;

/** Bytes read from a line for its id or its role, which are near the beginning of nearly every line. */
const HEAD_BYTES = 400;

/**
 * All entries of a log, with their positions and parents. Built in one pass over the bytes that parses very few lines;
 * the content of an entry is read from the view when it is needed. The tree grows with the log, and existing rows never
 * change. Rows are numbers in file order, for code that reads many entries. Other code uses ids. Do not use
 * `instanceof`: in the published package, `espalier/browser` has a class of its own.
 */
export class Tree {
  /** Position and parent of each entry, in columns of numbers by row. */
  readonly index: RowIndex;
  readonly #intake: LineIntake;
  /**
   * Two generations of cached entries. Deleting the oldest entry of a single map repeatedly is slow, because each
   * search passes over the deleted ones.
   */
  #bodies = new Map<number, Entry>();
  #olderBodies = new Map<number, Entry>();
  /** Bytes of the lines of the newer generation. */
  #bodyBytes = 0;
  readonly #scan = new EntryScan();
  #view: ByteView;
  #reader: BlockReader;
  /** Undefined when the session has no kinds of its own. */
  #ownKinds: OwnKinds | undefined;

  /** @param index an empty index for the rows; default: in memory */
  constructor(view: ByteView, index: RowIndex = new EntryIndex()) {
    this.index = index;
    this.#intake = new LineIntake(index, view);
    this.#view = view;
    this.#reader = new BlockReader(view);
    this.#intake.takeLog(view);
  }

  /** Number of entries. */
  get length(): number {
    return this.index.length;
  }

  /** Header of the log; undefined when there is no header before the first entry. */
  get header(): SessionHeader | undefined {
    return this.#intake.header;
  }

  /** Problems of the lines, in file order. `referenceIssues` finds wrong references and invalid entries. */
  get issues(): readonly SessionIssue[] {
    return this.#intake.issues;
  }

  /** Row of the last line that is an entry, or of the earlier line that it repeats; -1 when there are no entries. */
  get lastRow(): number {
    return this.#intake.lastRow;
  }

  /** Bytes from which the tree was read. */
  get view(): ByteView {
    return this.#view;
  }

  /** Adds the new entries from a longer view of the same log. */
  takeIn(view: ByteView): void {
    // If reading fails here, the shorter view stays, and the next call reads the rest.
    this.#intake.takeLog(view);
    this.#view = view;
    this.#reader = new BlockReader(view);
  }

  /** Returns whether an entry has this id. */
  has(id: string): boolean {
    return this.index.rowOf(id) >= 0;
  }

  /**
   * Returns the row of the entry with this id; the newest one when a damaged log has several.
   * @throws EspalierError `unknown-entry`; the message names up to three similar ids
   */
  row(id: string): number {
    const row = this.index.rowOf(id);
    if (row >= 0) return row;
    const near = similarIds(String(id), this.ids());
    const hint = near.length > 0 ? `Similar ids: ${near.join(", ")}.` : "`espalier tree` lists all ids.";
    throw new EspalierError(
      "unknown-entry",
      `There is no entry ${JSON.stringify(id)} in this session. ${hint}`,
    );
  }

  /** Returns the entry with this id, the newest one as in {@link row}; undefined when there is none. */
  getEntry(id: string): Entry | undefined {
    const row = this.index.rowOf(id);
    return row < 0 ? undefined : this.entryAt(row);
  }

  /** Yields all entries in file order, read one at a time. */
  *entries(): Generator<Entry> {
    for (let row = 0; row < this.length; row++) yield this.entryAt(row);
  }

  /** Yields all ids in file order. */
  *ids(): Generator<string> {
    for (let row = 0; row < this.length; row++) yield this.idAt(row);
  }

  /** Returns the entry of a row; an entry of type {@link DAMAGED} when its line can no longer be read. */
  entryAt(row: number): Entry {
    const kept = this.#bodyAtHand(row);
    if (kept) return kept;
    const line = readSessionLine(this.bytesAt(row));
    const entry = line.is === "entry" && this.#isOfRow(line.entry, row) ? line.entry : this.#placeholder(row);
    this.#ownKinds?.adopt(entry);
    this.#keepAtHand(row, entry);
    return entry;
  }

  /** Returns whether parsing a line gave the same id and type as scanning it. They differ for a line that has a key twice. */
  #isOfRow({ id, type }: Entry, row: number): boolean {
    return this.#hasId(row, id) && this.index.kind(row) === kindCode(type);
  }

  #hasId(row: number, id: string): boolean {
    this.index.hash.hashText(id);
    return this.index.hasHash(row);
  }

  /** Caches entries that were just appended, so that their lines need not be read. Call it after {@link takeIn}. */
  remember(entries: readonly Entry[]): void {
    for (const entry of entries) this.#keepAtHand(this.index.rowOf(entry.id), entry);
  }

  #keepAtHand(row: number, entry: Entry): void {
    const bytes = this.index.lineLength(row);
    if (bytes > BODY_BYTES_KEPT) return;
    if (this.#bodies.size >= BODIES_KEPT || this.#bodyBytes + bytes > BODY_BYTES_KEPT) {
      this.#olderBodies = this.#bodies;
      this.#bodies = new Map();
      this.#bodyBytes = 0;
    }
    this.#bodies.set(row, entry);
    this.#bodyBytes += bytes;
  }

  #bodyAtHand(row: number): Entry | undefined {
    return this.#bodies.get(row) ?? this.#olderBodies.get(row);
  }

  /**
   * Returns the line of a row as it is in the log, without its newline; for a line with several entries, the part of
   * this row. Lines that are near each other are read together.
   */
  bytesAt(row: number): Uint8Array {
    return this.#reader.read(this.index.offset(row), this.index.lineLength(row));
  }

  /** Returns the first bytes of a row's line, at most 400. */
  headAt(row: number): Uint8Array {
    return this.#reader.read(this.index.offset(row), Math.min(HEAD_BYTES, this.index.lineLength(row)));
  }

  /** Returns the id of a row. Reads only the line's beginning when that is enough. */
  idAt(row: number): string {
    const kept = this.#bodyAtHand(row);
    if (kept) return kept.id;
    const head = this.headAt(row);
    // The scan stops after the three keys, so it does not need the whole line.
    const id = scanEntry(head, 0, head.length, this.#scan, true) ? idIn(head, this.#scan) : undefined;
    // The line can have a second `id` further on, which the index then uses.
    return id !== undefined && this.#hasId(row, id) ? id : this.entryAt(row).id;
  }

  /** Returns the id of a row's parent in the tree; null for roots, including orphans. */
  parentIdAt(row: number): string | null {
    const parent = this.index.parent(row);
    return parent < 0 ? null : this.idAt(parent);
  }

  /**
   * Returns the kind of a row's entry. Parses the entry only when its type is not in the format and own kinds are used.
   */
  kindAt(row: number) {
    const code = this.index.kind(row);
    return code === 0 && this.#ownKinds ? kindOf(this.entryAt(row)) : entryKinds[code]!;
  }

  /**
   * Uses these kinds for entries whose type is not in the format.
   *
   * @internal
   */
  useKinds(kinds: OwnKinds): void {
    this.#ownKinds = kinds;
    for (const bodies of [this.#bodies, this.#olderBodies])
      for (const entry of bodies.values()) kinds.adopt(entry);
  }

  #placeholder(row: number): Entry {
    const bytes = this.bytesAt(row);
    if (scanEntry(bytes, 0, bytes.length, this.#scan)) return placeholder(bytes, this.#scan);
    return {
      type: DAMAGED,
      id: `line@${this.index.offset(row)}`,
      parentId: this.parentIdAt(row),
      timestamp: "",
    };
  }
}

/** Bytes that are read at once for a piece near the previous one. Twice as many were not faster. */
const BLOCK = 1 << 18;

/**
 * Reads pieces of a view. Pieces near each other, forwards or backwards, are read in blocks, because a call for each
 * line costs more than its bytes. Other pieces are read alone. No block is written to again, so the caller can keep a
 * piece of it.
 */
export class BlockReader {
  readonly #view: ByteView;
  #block: Uint8Array = new Uint8Array();
  /** Offset of the block in the view. */
  #start = 0;
  /** Offsets of the last piece. NaN before the first one, so that no piece is near it. */
  #from = Number.NaN;
  #to = Number.NaN;

  constructor(view: ByteView) {
    this.#view = view;
  }

  /** Returns the bytes of a piece. */
  read(offset: number, length: number): Uint8Array {
    const end = offset + length;
    const isAtHand = offset >= this.#start && end <= this.#start + this.#block.length;
    const bytes = isAtHand
      ? this.#block.subarray(offset - this.#start, end - this.#start)
      : this.#fetch(offset, end);
    this.#from = offset;
    this.#to = end;
    return bytes;
  }

  #fetch(offset: number, end: number): Uint8Array {
    if (end - offset >= BLOCK) return this.#view.read(offset, end - offset);
    let [from, to] = [offset, end];
    if (isNear(offset - this.#to)) to = Math.min(offset + BLOCK, this.#view.size);
    else if (isNear(this.#from - end)) from = Math.max(0, end - BLOCK);
    else return this.#view.read(offset, end - offset);
    this.#block = this.#view.read(from, to - from);
    this.#start = from;
    return this.#block.subarray(offset - from, end - from);
  }
}

const isNear = (distance: number): boolean => distance >= 0 && distance < BLOCK;

/** Maximum number of similar ids in an error. */
const MOST = 3;

/** Maximum number of ids that are compared, so that a wrong id costs little time in a very long session. */
const COMPARED = 100_000;

/**
 * Returns up to three ids that the caller may have meant: those that begin with the given text of two or more
 * characters, then those with an edit distance of at most 2. Compares the first 100,000 ids.
 */
function similarIds(wanted: string, ids: Iterable<string>): string[] {
  const beginning: string[] = [];
  const similar: { id: string; distance: number }[] = [];
  let compared = 0;
  for (const id of ids) {
    if (++compared > COMPARED) break;
    if (wanted.length >= 2 && id.startsWith(wanted)) beginning.push(id);
    else if (Math.abs(id.length - wanted.length) <= MOST_EDITS) {
      const distance = editDistance(wanted, id);
      if (distance <= MOST_EDITS) similar.push({ id, distance });
    }
  }
  similar.sort((a, b) => a.distance - b.distance);
  return [...beginning, ...similar.map(({ id }) => id)].slice(0, MOST);
}

/** Largest edit distance of a similar id. */
const MOST_EDITS = 2;

/** Returns the edit distance (insert, remove, replace), or `MOST_EDITS + 1` as soon as it exceeds `MOST_EDITS`. */
function editDistance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row++) {
    const current = [row];
    let best = row;
    for (let column = 1; column <= b.length; column++) {
      const replaced = previous[column - 1]! + (a[row - 1] === b[column - 1] ? 0 : 1);
      const value = Math.min(replaced, previous[column]! + 1, current[column - 1]! + 1);
      current.push(value);
      best = Math.min(best, value);
    }
    if (best > MOST_EDITS) return MOST_EDITS + 1;
    previous = current;
  }
  return previous[b.length]!;
}

/** Returns the rows of the path that ends in `row`, root first. With `above`, only those below that row of the path. */
export function pathRows({ index }: Tree, row: number, above = -1): number[] {
  const rows: number[] = [];
  for (let at = row; at > above; at = index.parent(at)) rows.push(at);
  return rows.reverse();
}

/** Returns 1 for each row of {@link pathRows}, and 0 for every other row of the tree. */
export function pathMarks({ index }: Tree, row: number): Uint8Array {
  const marks = new Uint8Array(index.length);
  for (let at = row; at >= 0; at = index.parent(at)) marks[at] = 1;
  return marks;
}

/** Returns the rows of {@link pathRows} whose kind is wanted. Does not read any line. */
export function pathRowsOf(tree: Tree, row: number, isWanted: (kind: EntryKind) => boolean): Int32Array {
  return tree.index.pathRows(row, entryKinds.map(isWanted));
}

/** Returns the entries of the path that ends in the entry with this id, root first; none for null. Throws `unknown-entry`. */
export function pathOf(tree: Tree, id: string | null): Entry[] {
  if (id === null) return [];
  return pathRows(tree, tree.row(id)).map((row) => tree.entryAt(row));
}

/** Returns the row of the deepest entry that is on both paths; -1 when they have none in common. */
export function commonAncestorRow(tree: Tree, a: number, b: number): number {
  // A parent's row is always smaller than its child's, so the larger of the two is replaced by its parent.
  while (a !== b) {
    if (a < 0 || b < 0) return -1;
    if (a > b) a = tree.index.parent(a);
    else b = tree.index.parent(b);
  }
  return a < 0 ? -1 : a;
}

/** Returns whether the row `ancestor` is on the path that ends in `row`. A row is on its own path. */
export function isOnPath(tree: Tree, ancestor: number, row: number): boolean {
  while (row > ancestor) row = tree.index.parent(row);
  return row === ancestor;
}

/**
 * Children of each row: two columns of row numbers, filled in one pass by the constructor. Rows that the tree gets
 * later are not included.
 */
export class ChildIndex {
  readonly #first: Int32Array;
  readonly #next: Int32Array;
  /** Rows without a parent, including orphans, in file order. */
  readonly roots: readonly number[];

  constructor(tree: Tree) {
    const { index } = tree;
    this.#first = new Int32Array(index.length).fill(-1);
    this.#next = new Int32Array(index.length).fill(-1);
    const roots: number[] = [];
    // From the last row to the first, so that each list is in file order.
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

  /** Yields the row's children in file order. */
  *of(row: number): Generator<number> {
    for (let child = this.#first[row]!; child >= 0; child = this.#next[child]!) yield child;
  }
}
