import { createHash } from "node:crypto";
import { readFileSync, realpathSync } from "node:fs";
import * as zlib from "node:zlib";
import { type ByteView, bytesView, JsonlError } from "@espalier/jsonl-stream";
import { type FileView, openView } from "@espalier/jsonl-stream/node";
import { decompress as decompressInScript } from "fzstd";
import { InteropError } from "../import-error.ts";
import type { SourceFile } from "../import-source.ts";

/** How many files are open at a time. */
const OPEN_FILES = 32;

/** Bytes hashed at a time. */
const BLOCK = 1 << 20;

/**
 * Opens source files, and keeps few of them open at a time however many are still in use: one that was closed is opened
 * again when it is read. A file is read as far as it reached when it was opened first.
 */
export class SourceFiles {
  /** By path, the one used last at the end. */
  readonly #open = new Map<string, FileView>();

  /** @throws InteropError `not-found`, `unreadable` */
  open(path: string): SourceFile {
    const view = path.endsWith(".zst") ? decompressed(path) : this.#lazyView(path);
    let digest: string | undefined;
    return {
      path,
      view,
      digest: () => {
        digest ??= digestOf(view);
        return digest;
      },
    };
  }

  /** Closes what is open; a view that is read later opens its file again. */
  close(): void {
    for (const view of this.#open.values()) view.close();
    this.#open.clear();
  }

  #lazyView(path: string): ByteView {
    const { size } = this.#use(path);
    const within = (offset: number, length: number) => Math.max(0, Math.min(length, size - offset));
    return {
      size,
      read: (offset, length) => this.#use(path).read(offset, within(offset, length)),
      readInto: (offset, target) => {
        const length = within(offset, target.length);
        return this.#use(path).readInto(
          offset,
          length === target.length ? target : target.subarray(0, length),
        );
      },
    };
  }

  #use(path: string): FileView {
    const view = this.#open.get(path) ?? openFile(path);
    this.#open.delete(path);
    this.#open.set(path, view);
    if (this.#open.size > OPEN_FILES) {
      const [oldest, unused] = this.#open.entries().next().value!;
      unused.close();
      this.#open.delete(oldest);
    }
    return view;
  }
}

function openFile(path: string): FileView {
  try {
    // A link is followed: it is the user's, and nothing is written there.
    return openView(realpathSync(path));
  } catch (cause) {
    throw readError(path, cause);
  }
}

function readError(path: string, cause: unknown): InteropError {
  const { code } = cause as { code?: unknown };
  const isMissing = code === "ENOENT" || (cause instanceof JsonlError && code === "not-found");
  return isMissing
    ? new InteropError("not-found", `There is no file ${path}; check the path.`, { cause })
    : new InteropError(
        "unreadable",
        `${path} cannot be read (${String(code)}); check its kind and its rights.`,
        { cause },
      );
}

type Decompress = (bytes: Uint8Array) => Uint8Array;

/** Node learnt this format in 22.15; older ones take a slower way. */
const { zstdDecompressSync: decompress = decompressInScript as Decompress } = zlib as {
  zstdDecompressSync?: Decompress;
};

function decompressed(path: string): ByteView {
  let bytes: Uint8Array;
  try {
    bytes = readFileSync(path);
  } catch (cause) {
    throw readError(path, cause);
  }
  try {
    return bytesView(decompress(bytes));
  } catch (cause) {
    throw new InteropError("unreadable", `${path} is no sound zstd file; run \`zstd -t\` on it.`, { cause });
  }
}

function digestOf(view: ByteView): string {
  const hash = createHash("sha256");
  const block = new Uint8Array(Math.min(BLOCK, view.size));
  for (let offset = 0; offset < view.size; offset += block.length)
    hash.update(block.subarray(0, view.readInto(offset, block)));
  return hash.digest("hex");
}
