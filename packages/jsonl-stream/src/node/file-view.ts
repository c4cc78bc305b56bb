import { resolve } from "node:path";
import type { ByteView } from "../byte-view.ts";
import { Descriptor } from "./descriptor.ts";
import { type FileCalls, nodeFileCalls } from "./file-calls.ts";
import { openRegularFile } from "./regular-file.ts";

/** A file as it was when it was opened: what is appended later is not in the view. */
export interface FileView extends ByteView {
  /** Absolute. */
  readonly path: string;
  /** Reading fails with `closed` from then on. */
  close(): void;
}

/**
 * Opens a regular file of any size for reading by position. Reading may fail with `unreadable`, or `shrunk` when the
 * file was shortened meanwhile.
 *
 * @throws JsonlError `not-found`, `not-a-file`, `unreadable`
 */
export function openView(path: string, options: { calls?: FileCalls } = {}): FileView {
  const absolute = resolve(path);
  const { calls = nodeFileCalls } = options;
  const { fd, facts } = openRegularFile(absolute, "read", false, calls);
  const descriptor = new Descriptor(absolute, fd, calls);
  return { ...descriptor.view(Number(facts.size)), path: absolute, close: () => descriptor.close() };
}
