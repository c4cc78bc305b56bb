import type { Entry } from "@espalier/session-tree";
import { type EntryBody, entryOf, readTime, type SourceTime } from "../import-entry.ts";
import { idFromText } from "../import-ids.ts";

/** An entry without its place. */
export interface Shoot {
  id: string;
  body: EntryBody;
}

/** What has been written of a session: what became of each row, and where the next one hangs. */
export class Trunk {
  /** The time of the line that is being written. */
  time: SourceTime;
  /** The id under which what follows a row is written. */
  readonly #lastId: (string | undefined)[];
  readonly #parent: Int32Array;
  /** How many entries a row became; negative when they say nothing to a model. */
  readonly #count: Int16Array;
  /** The row that was written last; -1 before the first. */
  #lastRow = -1;
  /** State that was written behind that row: what follows the row next hangs under it, not beside it. */
  #behind: string | undefined;

  constructor(rows: number, time: SourceTime) {
    this.time = time;
    this.#lastId = new Array<string | undefined>(rows);
    this.#parent = new Int32Array(rows).fill(-1);
    this.#count = new Int16Array(rows);
  }

  has(row: number): boolean {
    return this.#count[row] !== 0;
  }

  /** The row above one that was written; -1 for a root. */
  parent(row: number): number {
    return this.#parent[row]!;
  }

  speaks(row: number): boolean {
    return this.#count[row]! > 0;
  }

  /** The ids of what a row says, given its own id. */
  ids(row: number, id: string): string[] {
    return lineIds(id, Math.abs(this.#count[row]!));
  }

  /** The id under which what follows a row hangs; null for a root. */
  under(row: number): string | null {
    if (row === this.#lastRow && this.#behind !== undefined) return this.#behind;
    return row < 0 ? null : (this.#lastId[row] ?? null);
  }

  /** Reads the time of a line; a line without one has that of the line before. */
  at(time: unknown): void {
    this.time = readTime(time, this.time);
  }

  /** The entries of a row, one under the other, below the row `above`. */
  grow(
    row: number,
    above: number,
    shoots: readonly Shoot[],
    said: { count: number; speaks: boolean },
  ): Entry[] {
    let parentId = this.under(above);
    const entries: Entry[] = [];
    for (const { id, body } of shoots) {
      entries.push(entryOf(body, id, parentId, this.time.iso));
      parentId = id;
    }
    this.#lastId[row] = parentId ?? undefined;
    this.#parent[row] = above;
    this.#count[row] = said.speaks ? said.count : -said.count;
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
