import { resized } from "./column.ts";

/** 64 bits of hash for each of many ids, as two columns. */
export class IdHashes {
  low: Int32Array;
  high: Int32Array;

  constructor(room: number) {
    this.low = new Int32Array(room);
    this.high = new Int32Array(room);
  }

  /** Bytes held by the columns. */
  get byteLength(): number {
    return this.low.byteLength + this.high.byteLength;
  }

  /** Makes room for so many ids, and keeps those that fit. */
  resize(room: number): void {
    this.low = resized(this.low, new Int32Array(room));
    this.high = resized(this.high, new Int32Array(room));
  }
}
