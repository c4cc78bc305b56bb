import { EntryIndex, ROOT } from "@espalier/session-tree";
import { idText, type LineFacts } from "./line-facts.ts";
import { LineMark } from "./line-kind.ts";

/** A parent that is named and nowhere in the file. */
export const PHANTOM = -3;

/** Where a line stands. */
export interface LinePlace {
  /** From 1. */
  lineNumber: number;
  offset: number;
  length: number;
}

/**
 * The lines of a file as columns of numbers: where each is, what it is, what it follows. Rows are in file order. About
 * 75 bytes a line whatever it says; what a line says is read again when it is needed.
 */
export class LineTable {
  readonly #index = new EntryIndex();
  readonly #messages = new EntryIndex();
  #lineNumber = new Uint32Array(64);
  #parent = new Int32Array(64);
  #marks = new Uint8Array(64);
  #message = new Int32Array(64);
  /** Ids that are not those in the lines. */
  readonly renamed = new Map<number, string>();
  /** Parents named before they were met. */
  readonly #awaited = new Map<number, string>();

  get length(): number {
    return this.#index.length;
  }

  offset(row: number): number {
    return this.#index.offset(row);
  }

  lineLength(row: number): number {
    return this.#index.lineLength(row);
  }

  kind(row: number): number {
    return this.#index.kind(row);
  }

  /** From 1. */
  lineNumber(row: number): number {
    return this.#lineNumber[row]!;
  }

  /** The row that this one follows by what the lines say, `ROOT`, or {@link PHANTOM}. */
  parent(row: number): number {
    return this.#parent[row]!;
  }

  /** The number of the answer that the row is a part of; -1 for everything else. */
  message(row: number): number {
    return this.#message[row]!;
  }

  has(row: number, mark: number): boolean {
    return (this.#marks[row]! & mark) !== 0;
  }

  mark(row: number, mark: number): void {
    this.#marks[row]! |= mark;
  }

  /** The row of the line with this id; -1 when there is none. */
  rowOf(id: string): number {
    return this.#index.rowOf(id);
  }

  /** The same, for an id that stands in bytes. */
  rowOfBytes(bytes: Uint8Array, start: number, end: number): number {
    return this.#index.rowOfBytes(bytes, start, end);
  }

  /** Adds a line; an empty id is never found. */
  add(id: Uint8Array, kind: number, { marks, message }: LineFacts, place: LinePlace): number {
    // Ids of lines are made to differ, so no row has an older namesake: asking only says where the id goes.
    this.rowOfBytes(id, 0, id.length);
    const row = this.#index.add(-1, ROOT, kind, place.offset, place.length);
    if (row === this.#parent.length) this.#grow();
    this.#lineNumber[row] = place.lineNumber;
    this.#parent[row] = ROOT;
    this.#marks[row] = marks;
    this.#message[row] = message ? this.#messageNumber(message) : -1;
    return row;
  }

  /** Says what a row follows. The parent may stand further below. */
  follow(row: number, parentId: Uint8Array): void {
    const parent = this.rowOfBytes(parentId, 0, parentId.length);
    if (parent >= 0) this.#setFollowed(row, parent);
    else this.#awaited.set(row, idText(parentId));
  }

  /** Hangs a row elsewhere; what it hangs under counts as followed by what the lines say alone. */
  setParent(row: number, parent: number): void {
    this.#parent[row] = parent;
  }

  /** When all lines are in: parents that stood further below are found now, or never. Tells of those that are not. */
  settle(isMissing: (row: number) => void): void {
    for (const [row, parentId] of this.#awaited) {
      const parent = this.rowOf(parentId);
      if (parent >= 0) this.#setFollowed(row, parent);
      else {
        this.setParent(row, PHANTOM);
        isMissing(row);
      }
    }
    this.#awaited.clear();
  }

  #setFollowed(row: number, parent: number): void {
    this.setParent(row, parent);
    this.mark(parent, LineMark.followed);
  }

  #messageNumber(id: Uint8Array): number {
    const known = this.#messages.rowOfBytes(id, 0, id.length);
    return known >= 0 ? known : this.#messages.add(known, ROOT, 0, 0, 0);
  }

  #grow(): void {
    const size = Math.ceil(this.#parent.length * 1.5);
    this.#lineNumber = copyInto(new Uint32Array(size), this.#lineNumber);
    this.#parent = copyInto(new Int32Array(size), this.#parent);
    this.#marks = copyInto(new Uint8Array(size), this.#marks);
    this.#message = copyInto(new Int32Array(size), this.#message);
  }
}

function copyInto<Column extends { set(source: Column): void }>(target: Column, source: Column): Column {
  target.set(source);
  return target;
}
