import { createHash } from "node:crypto";
import { realpathSync } from "node:fs";
import { type ByteView, JsonlError } from "@espalier/jsonl-stream";
import { openView } from "@espalier/jsonl-stream/node";
import { InteropError } from "../import-error.ts";
import type { SourceFile } from "../import-source.ts";
import { type ClosableView, decompressedFile } from "./decompressed-file.ts";

/** How many files are open at a time. */
const OPEN_FILES = 32;

/** Bytes hashed at a time. */
const BLOCK = 1 << 20;

/**
 * Opens source files, and keeps few of them open at a time however many are still in use: one that was closed is opened
 * again when it is read, and decompressed again if it was. A file is read as far as it reached when it was opened first.
 */
export class SourceFiles {
  /** By path, the one used last at the end. */
  readonly #open = new Map<string, ClosableView>();

  /** @throws InteropError `not-found`, `unreadable` */
  open(path: string): SourceFile {
    const view = this.#lazyView(path);
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

  #use(path: string): ClosableView {
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

function openFile(path: string): ClosableView {
  try {
    // A link is followed: it is the user's, and nothing is written there.
    const view = openView(realpathSync(path));
    if (!path.endsWith(".zst")) return view;
    try {
      return decompressedFile(path, view);
    } finally {
      view.close();
    }
  } catch (cause) {
    if (cause instanceof InteropError) throw cause;
    throw readError(path, cause);
  }
}

function readError(path: string, cause: unknown): InteropError {
  const { code } = cause as { code?: unknown };
  if (cause instanceof JsonlError && code === "not-a-file")
    return new InteropError("unreadable", cause.message, { cause });
  const isMissing = code === "ENOENT" || (cause instanceof JsonlError && code === "not-found");
  return isMissing
    ? new InteropError("not-found", `There is no file ${path}; check the path.`, { cause })
    : new InteropError(
        "unreadable",
        `${path} cannot be read (${String(code)}); check its kind and its rights.`,
        { cause },
      );
}

function digestOf(view: ByteView): string {
  const hash = createHash("sha256");
  const block = new Uint8Array(Math.min(BLOCK, view.size));
  for (let offset = 0; offset < view.size; offset += block.length)
    hash.update(block.subarray(0, view.readInto(offset, block)));
  return hash.digest("hex");
}
