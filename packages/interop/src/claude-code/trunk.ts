import type { Entry } from "@espalier/session-tree";
import { type EntryBody, entryOf, readTime, type SourceTime } from "../import-entry.ts";
import { idFromText } from "../import-ids.ts";
import type { ScratchArea } from "../scratch/scratch-area.ts";
import type { ScratchColumn } from "../scratch/scratch-column.ts";

/** An entry without its place. */
export interface Shoot {
  id: string;
  body: EntryBody;
}

/** How many of the newest ids are remembered: a power of two. What follows a row mostly comes soon. */
const REMEMBERED = 1 << 10;

/** What has been written of a session: what became of each row, and where the next one hangs. */
export class Trunk {
  /** The time of the line that is being written. */
  time: SourceTime;
  readonly #idOf: (row: number) => string;
  /** The ids under which what follows a row is written, of late: by the row's last digits, with the row. */
  readonly #lastIds: string[] = [];
  readonly #lastIdRows: number[] = [];
  /** The same, where it is not the row's own: compactions. */
  readonly #otherIds = new Map<number, string>();
  readonly #parent: ScratchColumn<Int32Array>;
  /** How many entries a row became; negative when they say nothing to a model. */
  readonly #count: ScratchColumn<Int32Array>;
  /** The row that was written last; -1 before the first. */
  #lastRow = -1;
  /** State that was written behind that row: what follows the row next hangs under it, not beside it. */
  #behind: string | undefined;

  /** @param idOf the id of a row's own entry */
  constructor(area: ScratchArea, time: SourceTime, idOf: (row: number) => string) {
    this.time = time;
    this.#idOf = idOf;
    this.#parent = area.integers(-1);
    this.#count = area.integers();
  }

  has(row: number): boolean {
    return this.#count.get(row) !== 0;
  }

  /** The row above one that was written; -1 for a root. */
  parent(row: number): number {
    return this.#parent.get(row);
  }

  speaks(row: number): boolean {
    return this.#count.get(row) > 0;
  }

  /** The ids of what a row says, given its own id. */
  ids(row: number, id: string): string[] {
    return lineIds(id, Math.abs(this.#count.get(row)));
  }

  /** The id under which what follows a row hangs; null for a root. */
  under(row: number): string | null {
    if (row === this.#lastRow && this.#behind !== undefined) return this.#behind;
    if (row < 0 || !this.has(row)) return null;
    const place = row % REMEMBERED;
    if (this.#lastIdRows[place] === row) return this.#lastIds[place]!;
    return this.#otherIds.get(row) ?? this.#idOf(row);
  }

  /** Reads the time of a line; a line without one has that of the line before. */
  at(time: unknown): void {
    this.time = readTime(time, this.time);
  }

  /**
   * The entries of a row, one under the other, below the row `above`.
   *
   * @param said.own the id that the row has by itself, where its last entry has that
   */
  grow(
    row: number,
    above: number,
    shoots: readonly Shoot[],
    said: { own: string | undefined; count: number; speaks: boolean },
  ): Entry[] {
    let parentId = this.under(above);
    const entries: Entry[] = [];
    for (const { id, body } of shoots) {
      entries.push(entryOf(body, id, parentId, this.time.iso));
      parentId = id;
    }
    const place = row % REMEMBERED;
    if (parentId !== null) {
      this.#lastIds[place] = parentId;
      this.#lastIdRows[place] = row;
      if (parentId !== said.own) this.#otherIds.set(row, parentId);
    }
    this.#parent.set(row, above);
    this.#count.set(row, said.speaks ? said.count : -said.count);
    this.#lastRow = row;
    this.#behind = undefined;
    return entries;
  }

  /** State behind the row that was written last. */
  behind({ id, body }: Shoot): Entry {
    const entry = entryOf(body, id, this.under(this.#lastRow), this.time.iso);
    if (body.type !== "session_info") this.#behind = id;
    return entry;
  }
}

/** The ids of so many entries out of one line: the last one, which others follow, has the line's own. */
export function lineIds(id: string, count: number): string[] {
  if (count === 1) return [id];
  return Array.from({ length: count }, (_, at) => (at === count - 1 ? id : idFromText(`${id}/${at}`)));
}
