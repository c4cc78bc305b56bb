/**
 * A prefix of an append-only sequence of bytes, read synchronously. What it holds never changes;
 * the file behind it may grow meanwhile, the view does not.
 */
export interface ByteView {
  /** Bytes in the view. */
  readonly size: number;
  /** The bytes from `offset` on, `length` of them or as many as the view has. The caller may keep them. */
  read(offset: number, length: number): Uint8Array;
  /** Fills `target` from `offset` on and returns how many bytes that were: fewer only at the end of the view. */
  readInto(offset: number, target: Uint8Array): number;
}

/** A view of bytes in memory, which must not be changed from now on: `read` returns parts of them, not copies. */
export function bytesView(bytes: Uint8Array): ByteView {
  return {
    size: bytes.length,
    read: (offset, length) => bytes.subarray(offset, Math.min(offset + length, bytes.length)),
    readInto(offset, target) {
      const part = bytes.subarray(offset, Math.min(offset + target.length, bytes.length));
      target.set(part);
      return part.length;
    },
  };
}
