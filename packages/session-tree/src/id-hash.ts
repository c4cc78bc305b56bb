/** 64 bits of hash of an id, seeded at random, so that a file cannot be made to collide. */
export class IdHash {
  /** What all hashes of this one begin with. */
  readonly seed = (Math.random() * 0x1_0000_0000) | 0;
  /** The lower 32 bits of the hash of the last id handed to {@link hash} or {@link hashText}: signed, as fields hold integers best. */
  low = 0;
  /** The upper 32 bits, signed too. */
  high = 0;

  /** Hashes the id in `bytes[start, end)` into {@link low} and {@link high}. */
  hash(bytes: Uint8Array, start: number, end: number): void {
    let low = this.seed ^ (end - start);
    let high = ~low;
    // Two bytes at a time: each step waits for the one before it.
    for (let at = start; at < end; at += 2) {
      const pair = at + 1 < end ? bytes[at]! | (bytes[at + 1]! << 8) : bytes[at]!;
      low = Math.imul(low ^ pair, 0x01000193);
      high = Math.imul((high ^ pair) + (high >>> 15), 0x85ebca6b);
    }
    this.#finish(low, high);
  }

  /** Hashes the UTF-8 bytes of an id. Of nearly every one these are its code units: encoding would cost more than all the rest. */
  hashText(id: string): void {
    let low = this.seed ^ id.length;
    let high = ~low;
    for (let at = 0; at < id.length; at += 2) {
      const first = id.charCodeAt(at);
      const second = at + 1 < id.length ? id.charCodeAt(at + 1) : 0;
      if ((first | second) > 127) {
        const bytes = encoder.encode(id);
        this.hash(bytes, 0, bytes.length);
        return;
      }
      const pair = first | (second << 8);
      low = Math.imul(low ^ pair, 0x01000193);
      high = Math.imul((high ^ pair) + (high >>> 15), 0x85ebca6b);
    }
    this.#finish(low, high);
  }

  #finish(low: number, high: number): void {
    this.low = Math.imul(low ^ (low >>> 15), 0x2c1b3c6d);
    this.high = Math.imul(high ^ (high >>> 13), 0xc2b2ae35);
  }
}

const encoder = new TextEncoder();
