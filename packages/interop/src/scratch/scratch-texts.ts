import type { ScratchArea } from "./scratch-area.ts";
import type { ScratchColumn } from "./scratch-column.ts";

/** Short texts, one after the other: ids of lines. */
export class ScratchTexts {
  length = 0;
  /** Two bytes for each code unit, as half of a pair can stand in an id alone. */
  readonly #bytes: ScratchColumn<Uint8Array>;
  /** Where each text ends, in code units. */
  readonly #ends: ScratchColumn<Float64Array>;
  #end = 0;

  constructor(area: ScratchArea) {
    this.#bytes = area.bytes();
    this.#ends = area.floats();
  }

  add(text: string): void {
    for (let at = 0; at < text.length; at++, this.#end++) {
      const unit = text.charCodeAt(at);
      this.#bytes.set(2 * this.#end, unit & 255);
      this.#bytes.set(2 * this.#end + 1, unit >>> 8);
    }
    this.#ends.set(this.length++, this.#end);
  }

  /** The text at a place, from 0 on. */
  get(place: number): string {
    let text = "";
    for (let at = place === 0 ? 0 : this.#ends.get(place - 1); at < this.#ends.get(place); at++)
      text += String.fromCharCode(this.#bytes.get(2 * at) | (this.#bytes.get(2 * at + 1) << 8));
    return text;
  }
}
