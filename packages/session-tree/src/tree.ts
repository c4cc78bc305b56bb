import type { ByteView } from "@espalier/jsonl-stream";
import { DAMAGED, idIn, placeholder } from "./damaged.ts";
import type { Entry } from "./entry.ts";
import { EntryIndex } from "./entry-index.ts";
import { entryKinds, kindCode, kindOf } from "./entry-kinds.ts";
import { EntryScan, scanEntry } from "./entry-scan.ts";
import { findNear } from "./near-ids.ts";
import { NearReader } from "./near-reader.ts";
import type { OwnKinds } from "./own-kinds.ts";
import { ORPHAN, ROOT, type RowIndex } from "./row-index.ts";
import type { SessionHeader } from "./session-header.ts";
import type { SessionIssue } from "./session-issue.ts";
import { readSessionLine } from "./session-line.ts";
import { SessionTreeError } from "./session-tree-error.ts";
import { TreeIntake } from "./tree-intake.ts";

/** How many parsed entries are kept at hand at least, and up to twice as many; those read first go first. */
const BODIES_KEPT = 2_048;

/** How many bytes of lines these are at the most, and up to twice as many: 8 MiB, what so many lines of 4 kB have. */
const BODY_BYTES_KEPT = 1 << 23;

/** How much of a line is read to find its id or its role, which stand near the beginning; the whole line is there if not. */
const HEAD_BYTES = 400;

/**
 * All entries of a log: where they are and how they hang together. Built by one pass over the bytes that parses next
 * to nothing; what an entry says is read from the view when somebody asks. It grows when the log does, and nothing in
 * it ever changes.
 *
 * Rows are numbers in file order, for code that walks many entries; ids are for everyone else.
 */
export class Tree {
  /** Where each entry is and how they hang together, in columns of numbers by row. */
  readonly index: RowIndex;
  readonly #intake: TreeIntake;
  /** Two generations: taking the oldest entry out of one map, time and again, costs a walk over what was taken out. */
  #bodies = new Map<number, Entry>();
  #olderBodies = new Map<number, Entry>();
  /** Bytes of the lines of the newer ones. */
  #bodyBytes = 0;
  readonly #scan = new EntryScan();
  #view: ByteView;
  #reader: NearReader;
  /** Undefined where the session has no kinds of its own. */
  #ownKinds: OwnKinds | undefined;

  /** @param index where the rows are kept, empty; default: in memory */
  constructor(view: ByteView, index: RowIndex = new EntryIndex()) {
    this.index = index;
    this.#intake = new TreeIntake(index);
    this.#view = view;
    this.#reader = new NearReader(view);
    this.#intake.takeIn(view);
  }

  /** Number of entries. */
  get length(): number {
    return this.index.length;
  }

  /** The first line, when it is a header. */
  get header(): SessionHeader | undefined {
    return this.#intake.header;
  }

  /** What is wrong with the lines, in file order. References are judged by `referenceIssues`. */
  get issues(): readonly SessionIssue[] {
    return this.#intake.issues;
  }

  /** The row of the last usable line; -1 when there is none. */
  get lastRow(): number {
    return this.#intake.lastRow;
  }

  /** The bytes the tree was read from. */
  get view(): ByteView {
    return this.#view;
  }

  /** Takes in what a longer view of the same log has beyond what was read. Returns the first new row. */
  takeIn(view: ByteView): number {
    const firstNew = this.length;
    // Should reading fail in between, the shorter view says that there is more to take in.
    this.#intake.takeIn(view);
    this.#view = view;
    this.#reader = new NearReader(view);
    return firstNew;
  }

  /** Whether an entry has this id. */
  has(id: string): boolean {
    return this.index.rowOf(id) >= 0;
  }

  /**
   * The row of the entry with this id: the newest, where a damaged log has several.
   * @throws SessionTreeError `unknown-entry`, naming near ids
   */
  row(id: string): number {
    const row = this.index.rowOf(id);
    if (row >= 0) return row;
    const near = findNear(id, this.ids());
    const hint =
      near.length > 0 ? `Near it: ${near.join(", ")}.` : "`espalier tree` lists the ids there are.";
    throw new SessionTreeError(
      "unknown-entry",
      `There is no entry ${JSON.stringify(id)} in this session. ${hint}`,
    );
  }

  /** The entry with this id; undefined when there is none. */
  getEntry(id: string): Entry | undefined {
    const row = this.index.rowOf(id);
    return row < 0 ? undefined : this.entryAt(row);
  }

  /** All entries in file order, read one at a time. */
  *entries(): Generator<Entry> {
    for (let row = 0; row < this.length; row++) yield this.entryAt(row);
  }

  /** All ids in file order. */
  *ids(): Generator<string> {
    for (let row = 0; row < this.length; row++) yield this.idAt(row);
  }

  /** The entry of a row. Where its line cannot be read any more, one of type {@link DAMAGED} holds its place. */
  entryAt(row: number): Entry {
    const kept = this.#bodyAtHand(row);
    if (kept) return kept;
    const line = readSessionLine(this.bytesAt(row));
    const entry = line.is === "entry" && this.#isOfRow(line.entry, row) ? line.entry : this.#placeholder(row);
    this.#ownKinds?.adopt(entry);
    this.#keepAtHand(row, entry);
    return entry;
  }

  /** Whether parsing a line finds what scanning it found: not where a key stands twice. */
  #isOfRow({ id, type }: Entry, row: number): boolean {
    return this.index.hasId(row, id) && this.index.kind(row) === kindCode(type);
  }

  /** Keeps entries at hand that were just appended, so that their lines need not be read. */
  remember(entries: readonly Entry[]): void {
    for (const entry of entries) this.#keepAtHand(this.index.rowOf(entry.id), entry);
  }

  #keepAtHand(row: number, entry: Entry): void {
    const bytes = row < 0 ? 0 : this.index.lineLength(row);
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

  /** The line of a row as it is in the log, without its end; of a line with several entries, its part. Lines that stand near each other are read at once. */
  bytesAt(row: number): Uint8Array {
    return this.#reader.read(this.index.offset(row), this.index.lineLength(row));
  }

  /** The first bytes of a row's line, at most 400. */
  headAt(row: number): Uint8Array {
    return this.#reader.read(this.index.offset(row), Math.min(HEAD_BYTES, this.index.lineLength(row)));
  }

  /** The id of a row; reads no more than the line's beginning where that is enough. */
  idAt(row: number): string {
    const kept = this.#bodyAtHand(row);
    if (kept) return kept.id;
    const id = idInHead(this.headAt(row), this.#scan);
    // A line may have a second id further on, and be known by that.
    return id !== undefined && this.index.hasId(row, id) ? id : this.entryAt(row).id;
  }

  /** The id of a row's parent as the tree has it: null for roots, orphans among them. */
  parentIdAt(row: number): string | null {
    const parent = this.index.parent(row);
    return parent === ROOT || parent === ORPHAN ? null : this.idAt(parent);
  }

  /** The kind that answers for a row. */
  kindAt(row: number) {
    const code = this.index.kind(row);
    return code === 0 && this.#ownKinds ? kindOf(this.entryAt(row)) : entryKinds[code]!;
  }

  /**
   * Kinds besides those of the format answer for their entries from now on.
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
    const parent = this.index.parent(row);
    return {
      type: DAMAGED,
      id: `line@${this.index.offset(row)}`,
      parentId: parent < 0 ? null : this.idAt(parent),
      timestamp: "",
    };
  }
}

/** Scans a piece of a line as if it were whole; the scan stops before it could notice, or says that it is not sure. */
function idInHead(head: Uint8Array, scan: EntryScan): string | undefined {
  return scanEntry(head, 0, head.length, scan, true) ? idIn(head, scan) : undefined;
}
