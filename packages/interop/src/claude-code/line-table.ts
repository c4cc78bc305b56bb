import { ROOT } from "@espalier/session-tree";
import { IdBook } from "../scratch/ids.ts";
import type { ScratchArea, ScratchColumn } from "../scratch/space.ts";
import { hasPlace, type LineFacts, LineKind, LineMark } from "./line-facts.ts";

/** A parent that is named and nowhere in the file. */
export const PHANTOM = -3;

/** Where a line stands. */
export interface LinePlace {
  /** From 1. */
  lineNumber: number;
  offset: number;
  length: number;
}

/** A kind and its marks are kept in one number. */
const KIND_BITS = 4;
const KIND_MASK = (1 << KIND_BITS) - 1;

/**
 * The lines of a file as columns of numbers: where each is, what it is, what it follows. Rows are in file order. What a
 * line says is read again when it is needed.
 */
export class LineTable {
  readonly #ids: IdBook;
  readonly #answers: IdBook;
  readonly #offset: ScratchColumn<Float64Array>;
  readonly #lineLength: ScratchColumn<Uint32Array>;
  readonly #lineNumber: ScratchColumn<Uint32Array>;
  readonly #parent: ScratchColumn<Int32Array>;
  /** Kind and marks. */
  readonly #nature: ScratchColumn<Int32Array>;
  /** For each part of an answer the first row that named it, for all other rows -1. */
  readonly #message: ScratchColumn<Int32Array>;
  readonly #area: ScratchArea;
  length = 0;

  constructor(area: ScratchArea) {
    this.#area = area;
    this.#ids = new IdBook(area);
    this.#answers = new IdBook(area);
    this.#offset = area.floats();
    this.#lineLength = area.words();
    this.#lineNumber = area.words();
    this.#parent = area.integers(ROOT);
    this.#nature = area.integers();
    this.#message = area.integers(-1);
  }

  offset(row: number): number {
    return this.#offset.get(row);
  }

  lineLength(row: number): number {
    return this.#lineLength.get(row);
  }

  kind(row: number): number {
    return this.#nature.get(row) & KIND_MASK;
  }

  /** From 1. */
  lineNumber(row: number): number {
    return this.#lineNumber.get(row);
  }

  /** The row that this one follows by what the lines say, `ROOT`, or {@link PHANTOM}. */
  parent(row: number): number {
    return this.#parent.get(row);
  }

  /** Which answer the row is a part of: the first row of the file that names it; -1 for everything else. */
  message(row: number): number {
    return this.#message.get(row);
  }

  has(row: number, mark: number): boolean {
    return ((this.#nature.get(row) >>> KIND_BITS) & mark) !== 0;
  }

  mark(row: number, mark: number): void {
    this.#nature.set(row, this.#nature.get(row) | (mark << KIND_BITS));
  }

  /** The first row of a line with this id; -1 when there is none. When all lines are in. */
  rowOf(id: string): number {
    return this.#ids.rowOf(id);
  }

  /** The same, for an id that was hashed in the area of the table. */
  rowOfHash(hash: { high: number; low: number }): number {
    return this.#ids.rowOfHash(hash);
  }

  /** Adds a line; one whose id is empty is never found. */
  add(id: Uint8Array, kind: number, { marks, message }: LineFacts, place: LinePlace): number {
    const row = this.length++;
    this.#offset.set(row, place.offset);
    this.#lineLength.set(row, place.length);
    this.#lineNumber.set(row, place.lineNumber);
    this.#nature.set(row, kind | (marks << KIND_BITS));
    if (id.length > 0) this.#ids.add(id, row);
    if (message) this.#message.set(row, this.#firstOf(message, row));
    return row;
  }

  /** Says what a row follows. The parent may stand further below. */
  follow(row: number, parentId: Uint8Array): void {
    const parent = this.#ids.recent(parentId);
    if (parent >= 0) this.#setFollowed(row, parent);
    else this.#ids.ask(parentId, row);
  }

  /** Hangs a row elsewhere; what it hangs under counts as followed by what the lines say alone. */
  setParent(row: number, parent: number): void {
    this.#parent.set(row, parent);
  }

  /**
   * Drops the rows of a kind that lead to no row of another kind; tells of each. What followed them alone is followed by
   * nothing.
   */
  dropDeadEnds(kind: number, told: (row: number) => void): void {
    for (let row = 0; row < this.length; row++) this.#clear(row, LineMark.followed);
    for (let row = this.length - 1; row >= 0; row--) {
      if (!hasPlace(this.kind(row))) continue;
      const parent = this.parent(row);
      if (this.kind(row) === kind && !this.has(row, LineMark.followed)) continue;
      if (parent >= 0) this.mark(parent, LineMark.followed);
    }
    for (let row = 0; row < this.length; row++) {
      if (this.kind(row) !== kind || this.has(row, LineMark.followed)) continue;
      told(row);
      this.#drop(row);
    }
  }

  /** Hangs a row whose parent was lost under another one. */
  bridge(row: number, above: number): void {
    this.#setFollowed(row, above);
    this.mark(row, LineMark.bridged);
  }

  /**
   * When all lines are in: what stood too far away is found now, or never. Tells, in file order, of rows whose parent is
   * nowhere, and of rows whose id an older one has; for `isSame` such a row is that line once more, and nothing becomes of
   * it.
   */
  settle(told: {
    isSame(row: number, first: number): boolean;
    isMissing(row: number): void;
    isNamesake(row: number): void;
  }): void {
    const twins = this.#area.integers(-1);
    let hasTwins = false;
    let hasPhantoms = false;
    this.#ids.settle((row, first) => {
      hasTwins = true;
      twins.set(row, first);
    });
    this.#ids.answer((row, parent) => {
      if (parent >= 0) this.#setFollowed(row, parent);
      else this.setParent(row, PHANTOM);
      hasPhantoms ||= parent < 0;
    });
    if (hasTwins) this.#settleTwins(twins, told);
    if (hasPhantoms)
      for (let row = 0; row < this.length; row++) if (this.parent(row) === PHANTOM) told.isMissing(row);
    this.#area.free(twins);
    this.#settleAnswers();
  }

  /** Whoever follows an id that several lines have follows the first of them. */
  #settleTwins(twins: ScratchColumn<Int32Array>, told: Parameters<LineTable["settle"]>[0]): void {
    for (let row = 0; row < this.length; row++) {
      const first = twins.get(row);
      if (first >= 0) {
        this.#clear(row, LineMark.followed);
        if (told.isSame(row, first)) this.#drop(row);
        else told.isNamesake(row);
      }
      const parent = this.parent(row);
      const older = parent < 0 ? -1 : twins.get(parent);
      if (older >= 0) this.#setFollowed(row, older);
    }
  }

  #settleAnswers(): void {
    const twins = this.#area.integers(-1);
    let hasTwins = false;
    this.#answers.settle((row, first) => {
      hasTwins = true;
      twins.set(row, first);
    });
    for (let row = 0; hasTwins && row < this.length; row++) {
      const answer = this.message(row);
      const first = answer < 0 ? -1 : twins.get(answer);
      if (first >= 0) this.#message.set(row, first);
    }
    this.#area.free(twins);
  }

  #clear(row: number, mark: number): void {
    this.#nature.set(row, this.#nature.get(row) & ~(mark << KIND_BITS));
  }

  #drop(row: number): void {
    this.#nature.set(row, LineKind.repeated);
    this.#message.set(row, -1);
    this.setParent(row, ROOT);
  }

  #setFollowed(row: number, parent: number): void {
    this.setParent(row, parent);
    this.mark(parent, LineMark.followed);
  }

  /** Parts of an answer stand near one another; where they do not, {@link settle} finds the first. */
  #firstOf(message: Uint8Array, row: number): number {
    const first = this.#answers.recent(message);
    if (first >= 0) return first;
    this.#answers.add(message, row);
    return row;
  }
}
