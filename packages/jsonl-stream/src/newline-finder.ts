import type { LineFinder } from "./line-finder.ts";
import { LINE_FEED, searchable } from "./line-window.ts";

/** Finds one line after the other, by the fastest search for a byte that there is. */
export class NewlineFinder implements LineFinder {
  #block: Uint8Array = new Uint8Array();
  #bytes = this.#block;
  #start = 0;
  #end = 0;

  look(block: Uint8Array, start: number, end: number): void {
    if (block !== this.#block) {
      this.#block = block;
      this.#bytes = searchable(block);
    }
    this.#start = start;
    this.#end = end;
  }

  stopOf(start: number): number {
    const found = this.#bytes.indexOf(LINE_FEED, start);
    return found >= 0 && found < this.#end ? found : this.#end;
  }

  startOf(stop: number): number {
    if (stop <= this.#start) return this.#start;
    return Math.max(this.#start, this.#bytes.lastIndexOf(LINE_FEED, stop - 1) + 1);
  }
}
