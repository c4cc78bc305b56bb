/**
 * 64 bits of hash of an id, seeded at random, so that a file cannot be made to collide. The upper half is spread evenly:
 * where a hash stands among sorted ones can be guessed.
 */
export class IdHash {
  readonly #seed = (Math.random() * 0x1_0000_0000) >>> 0;
  /** The lower 32 bits of the hash of the last id handed to {@link hash} or {@link hashText}. */
  low = 0;
  /** The upper 32 bits. */
  high = 0;

  /** Hashes the id in `bytes[start, end)` into {@link low} and {@link high}. */
  hash(bytes: Uint8Array, start: number, end: number): void {
    let low = this.#seed;
    let high = ~this.#seed;
    for (let at = start; at < end; at++) {
      const byte = bytes[at]!;
      low = Math.imul(low ^ byte, 0x01000193);
      high = Math.imul((high ^ byte) + (high >>> 15), 0x85ebca6b);
    }
    this.#finish(low, high);
  }

  /** Hashes the UTF-8 bytes of an id. Of nearly every one these are its code units: encoding would cost more than all the rest. */
  hashText(id: string): void {
    let low = this.#seed;
    let high = ~this.#seed;
    for (let at = 0; at < id.length; at++) {
      const unit = id.charCodeAt(at);
      if (unit > 127) {
        const bytes = encoder.encode(id);
        this.hash(bytes, 0, bytes.length);
        return;
      }
      low = Math.imul(low ^ unit, 0x01000193);
      high = Math.imul((high ^ unit) + (high >>> 15), 0x85ebca6b);
    }
    this.#finish(low, high);
  }

  #finish(low: number, high: number): void {
    this.low = Math.imul(low ^ (low >>> 15), 0x2c1b3c6d) >>> 0;
    this.high = Math.imul(high ^ (high >>> 13), 0xc2b2ae35) >>> 0;
  }
}

const encoder = new TextEncoder();
