import { closeSync, openSync, readSync } from "node:fs";
import type { ByteView } from "@espalier/jsonl-stream";
import { Decompress } from "fzstd";
import { InteropError } from "../import-error.ts";
import { TemporaryFile } from "./temporary-file.ts";

/** Bytes of a compressed file read at a time. */
const BLOCK = 1 << 16;

/** A view that can be closed; what it holds is given back then. */
export interface ClosableView extends ByteView {
  close(): void;
}

/**
 * What a zstd file says, in a temporary file: in memory there is only what its compression looks back at, whatever its
 * size. Decompressed by a script, as the one in Node (22.15) gives the whole at once, or bit by bit to who can wait.
 *
 * @throws InteropError `unreadable` for a file that is no sound zstd file, `no-room`; what opening and reading it throws
 */
export function decompressedFile(path: string): ClosableView {
  const handle = openSync(path, "r");
  try {
    const whole = new TemporaryFile();
    try {
      return viewOf(whole, decompressInto(whole, handle, path));
    } catch (error) {
      whole.close();
      throw error;
    }
  } finally {
    closeSync(handle);
  }
}

/** Returns how many bytes were written. */
function decompressInto(whole: TemporaryFile, handle: number, path: string): number {
  let size = 0;
  const stream = new Decompress((bytes) => {
    whole.writeAt(size, bytes);
    size += bytes.length;
  });
  for (let isLast = false; !isLast; ) {
    // A block of its own each time: what belongs to the next step of the decompression is kept as it was handed over.
    const block = new Uint8Array(BLOCK);
    const length = readSync(handle, block, 0, BLOCK, null);
    isLast = length === 0;
    try {
      stream.push(block.subarray(0, length), isLast);
    } catch (cause) {
      if (cause instanceof InteropError) throw cause;
      throw new InteropError("unreadable", `${path} is no sound zstd file; run \`zstd -t\` on it.`, {
        cause,
      });
    }
  }
  return size;
}

function viewOf(whole: TemporaryFile, size: number): ClosableView {
  const readInto = (offset: number, target: Uint8Array): number => {
    const length = Math.max(0, Math.min(target.length, size - offset));
    whole.readAt(offset, target.subarray(0, length));
    return length;
  };
  const read = (offset: number, length: number): Uint8Array => {
    const bytes = new Uint8Array(Math.max(0, Math.min(length, size - offset)));
    readInto(offset, bytes);
    return bytes;
  };
  return { size, read, readInto, close: () => whole.close() };
}
