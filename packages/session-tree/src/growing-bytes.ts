import { type ByteView, bytesView } from "@espalier/jsonl-stream";

/** Bytes in memory that only grow: a view of them keeps what it had. */
export class GrowingBytes {
  #buffer: Uint8Array;
  /** Bytes in it. */
  size: number;
  /** When something was added last, epoch milliseconds. */
  modified = Date.now();

  constructor(initial: Uint8Array) {
    this.#buffer = initial;
    this.size = initial.length;
  }

  /** Bytes up to `size`, which never change again; a later, longer view may live in another buffer. */
  view(size = this.size): ByteView {
    return bytesView(this.#buffer.subarray(0, size));
  }

  /** Ends a line that has no end yet. */
  startLine(): void {
    if (this.size > 0 && this.#buffer[this.size - 1] !== 10) this.add(LINE_FEED);
  }

  /** Copies bytes behind what is there. */
  add(bytes: Uint8Array): void {
    if (bytes.length === 0) return;
    if (this.size + bytes.length > this.#buffer.length) {
      const larger = new Uint8Array(Math.max(1_024, (this.size + bytes.length) * 2));
      larger.set(this.#buffer.subarray(0, this.size));
      this.#buffer = larger;
    }
    this.#buffer.set(bytes, this.size);
    this.size += bytes.length;
    this.modified = Date.now();
  }
}

const LINE_FEED = Uint8Array.of(10);
