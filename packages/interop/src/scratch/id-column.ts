import { ID_LENGTH } from "@espalier/session-tree";
import type { ScratchArea } from "./scratch-area.ts";
import type { ScratchColumn } from "./scratch-column.ts";

/** Characters in a word: those of an id are below 256. */
const PER_WORD = 4;

/** An id as this package derives them, for each row; null where none was set. */
export class IdColumn {
  readonly #words: readonly ScratchColumn<Uint32Array>[];

  constructor(area: ScratchArea) {
    this.#words = Array.from({ length: ID_LENGTH / PER_WORD }, () => area.words());
  }

  get(row: number): string | null {
    let id = "";
    for (const column of this.#words) {
      const word = column.get(row);
      if (word === 0) return null;
      id += String.fromCharCode(word >>> 24, (word >>> 16) & 255, (word >>> 8) & 255, word & 255);
    }
    return id;
  }

  set(row: number, id: string | null): void {
    for (const [at, column] of this.#words.entries()) {
      let word = 0;
      for (let next = 0; id !== null && next < PER_WORD; next++)
        word = (word << 8) | id.charCodeAt(at * PER_WORD + next);
      column.set(row, word);
    }
  }
}
