import { statfsSync } from "node:fs";
import { tmpdir } from "node:os";
import type { ByteView } from "@espalier/jsonl-stream";
import { Decompress } from "fzstd";
import { InteropError } from "../import-error.ts";
import { TemporaryFile } from "./temporary-file.ts";

/** Bytes of a compressed file read at a time. */
const BLOCK = 1 << 16;

/** Bytes that any file may become. */
const ALWAYS_ALLOWED = 256 * 1024 * 1024;

/** So many times its size a larger one may become. Sessions of agents became 6 to 9 times theirs, by `zstd -19 --long`. */
const RATIO = 200;

/** The part of the free room that one file may take. */
const SHARE_OF_ROOM = 0.5;

/** A view that can be closed; what it holds is given back then. */
export interface ClosableView extends ByteView {
  close(): void;
}

/**
 * What a zstd file says, in a temporary file: in memory there is only what its compression looks back at, whatever its
 * size. Decompressed by a script, as the one in Node (22.15) gives the whole at once, or bit by bit to who can wait.
 *
 * @param path - names the file in messages
 * @param compressed - its bytes
 * @throws InteropError `unreadable` for a file that is no sound zstd file, or becomes more than a session can; `no-room`;
 *   what reading it throws
 */
export function decompressedFile(path: string, compressed: ByteView): ClosableView {
  const whole = new TemporaryFile();
  try {
    return viewOf(whole, decompressInto(whole, compressed, path));
  } catch (error) {
    whole.close();
    throw error;
  }
}

/** Returns how many bytes were written. */
function decompressInto(whole: TemporaryFile, compressed: ByteView, path: string): number {
  const allowed = Math.max(ALWAYS_ALLOWED, compressed.size * RATIO);
  const room = freeRoom() * SHARE_OF_ROOM;
  let size = 0;
  const stream = new Decompress((bytes) => {
    if (size + bytes.length > allowed) throw tooMuch(path, allowed);
    if (size + bytes.length > room) throw noRoom(path, room);
    whole.writeAt(size, bytes);
    size += bytes.length;
  });
  for (let offset = 0, isLast = false; !isLast; offset += BLOCK) {
    // A block of its own each time: what belongs to the next step of the decompression is kept as it was handed over.
    const block = compressed.read(offset, BLOCK).slice();
    isLast = block.length === 0;
    try {
      stream.push(block, isLast);
    } catch (cause) {
      if (cause instanceof InteropError) throw cause;
      throw new InteropError("unreadable", `${path} is no sound zstd file; run \`zstd -t\` on it.`, {
        cause,
      });
    }
  }
  return size;
}

function tooMuch(path: string, allowed: number): InteropError {
  const message = `${path} becomes more than ${inMegabytes(allowed)}, which no session of its size does; if it is one, decompress it with \`zstd -d\` and import that.`;
  return new InteropError("unreadable", message);
}

function noRoom(path: string, room: number): InteropError {
  const message = `${path} becomes more than ${inMegabytes(room)}, half of the room in ${tmpdir()}; make room there, or name another folder in TMPDIR.`;
  return new InteropError("unreadable", message);
}

const inMegabytes = (bytes: number): string => `${Math.floor(bytes / 1e6)} MB`;

/** Bytes that are free in the folder for temporary files. */
function freeRoom(): number {
  try {
    const { bavail, bsize } = statfsSync(tmpdir());
    return bavail * bsize;
  } catch {
    // Where the system does not say, writing fails when there is no more.
    return Number.POSITIVE_INFINITY;
  }
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
