const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** An id that is compared with bytes line after line, and made a text of only when somebody asks for that. */
export class WantedId {
  #bytes = new Uint8Array(64);
  /** How many of the bytes are the id; -1 when none is wanted. */
  #length = -1;
  /** The id as it was given: bytes do not tell two halves of a character from each other. */
  #text: string | undefined;

  get isNone(): boolean {
    return this.#length < 0;
  }

  set(id: string | null): void {
    this.#text = id ?? undefined;
    if (id === null) this.#length = -1;
    else {
      // At most three bytes for a code unit.
      this.#makeRoom(id.length * 3);
      this.#length = encoder.encodeInto(id, this.#bytes).written;
    }
  }

  /** Takes the id in `bytes[start, end)`, which is plain ASCII. */
  copy(bytes: Uint8Array, start: number, end: number): void {
    this.#text = undefined;
    this.#makeRoom(end - start);
    this.#length = end - start;
    for (let i = 0; i < this.#length; i++) this.#bytes[i] = bytes[start + i]!;
  }

  is(id: string): boolean {
    if (this.isNone) return false;
    this.#text ??= decoder.decode(this.#bytes.subarray(0, this.#length));
    return this.#text === id;
  }

  isIn(bytes: Uint8Array, start: number, end: number): boolean {
    if (end - start !== this.#length) return false;
    for (let i = 0; i < this.#length; i++) if (bytes[start + i] !== this.#bytes[i]) return false;
    return true;
  }

  #makeRoom(length: number): void {
    if (length > this.#bytes.length) this.#bytes = new Uint8Array(length);
  }
}
