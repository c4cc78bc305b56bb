import { resized } from "./column.ts";

/** 64 bits of hash for each of many ids, as two columns. */
export class IdHashes {
  low: Uint32Array;
  high: Uint32Array;

  constructor(room: number) {
    this.low = new Uint32Array(room);
    this.high = new Uint32Array(room);
  }

  get byteLength(): number {
    return this.low.byteLength + this.high.byteLength;
  }

  resize(room: number): void {
    this.low = resized(this.low, new Uint32Array(room));
    this.high = resized(this.high, new Uint32Array(room));
  }
}
