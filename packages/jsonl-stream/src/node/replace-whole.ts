import { resolve } from "node:path";
import type { ByteView } from "../byte-view.ts";
import { JsonlError } from "../jsonl-error.ts";
import { createWhole } from "./create-whole.ts";
import { discard, type WholeFileOptions, writeDraft } from "./draft.ts";
import { type FileCalls, type FileFacts, nodeFileCalls } from "./file-calls.ts";
import { checkKind, checkOwner, isSameFile } from "./file-kind.ts";
import { openView } from "./file-view.ts";
import { syncFolderOf } from "./folder.ts";
import { linkNew } from "./link-new.ts";
import { writingCall } from "./writing-call.ts";

/** What is known of the file that is replaced, and how its successor is written. */
export interface ReplaceWholeOptions extends WholeFileOptions {
  /** The name under which the original stays. It may already be there, as its second name or with its bytes. */
  keepAs: string;
  /** Bytes the original must still have just before it is replaced, lest lines appended meanwhile be left behind. */
  expectedSize?: number;
}

/**
 * Puts another whole file under a name and keeps the original under another: written beside, read back, synced, the
 * original linked to `keepAs`, the new one renamed over it, the folder synced. When it throws, the original has its
 * name, and perhaps already the other one too; only when the very last sync failed, the new file is in place.
 *
 * The last look at the original and the rename are two calls: callers see to it that no two do this at once.
 *
 * @throws JsonlError `not-found`, `not-a-file`, `not-ours`; `exists` (`keepAs` is another file), `changed`
 *   (`expectedSize`), `short-write`, `write-failed`; whatever `chunks` throws
 */
export function replaceWhole(path: string, chunks: Iterable<Uint8Array>, options: ReplaceWholeOptions): void {
  const absolute = resolve(path);
  const keepAs = resolve(options.keepAs);
  const { mode = 0o600, expectedSize, calls = nodeFileCalls } = options;
  const original = lookAt(absolute, calls);
  const draft = writeDraft(absolute, chunks, mode, calls, true);
  let copy: string[] = [];
  try {
    copy = keepOriginal(absolute, original, keepAs, calls);
    writingCall(keepAs, () => syncFolderOf(keepAs, calls));
    const now = lookAt(absolute, calls);
    if (!isSameFile(now, original) || (expectedSize !== undefined && Number(now.size) !== expectedSize)) {
      throw new JsonlError(
        "changed",
        `${absolute} was written to meanwhile; read it again and replace it then.`,
      );
    }
    writingCall(absolute, () => calls.renameSync(draft, absolute));
  } catch (error) {
    discard([draft, ...copy], calls);
    throw error;
  }
  writingCall(absolute, () => syncFolderOf(absolute, calls));
}

function lookAt(path: string, calls: FileCalls): FileFacts {
  const facts = writingCall(path, () => calls.lstatSync(path));
  if (facts === undefined) throw new JsonlError("not-found", `There is no file ${path} to replace.`);
  checkKind(path, facts);
  checkOwner(path, facts);
  return facts;
}

/**
 * Gives the original its other name, or copies it where there are no links. Returns the copy, which a failure later on
 * removes; a link stays, since another process replacing the same file may count on it to keep the original.
 */
function keepOriginal(path: string, original: FileFacts, keepAs: string, calls: FileCalls): string[] {
  const kept = writingCall(keepAs, () => calls.lstatSync(keepAs));
  if (kept !== undefined) {
    if (isSameFile(kept, original) || holdsSame(keepAs, path, calls)) return [];
    const message = `${keepAs} is already there, where ${path} is to be kept as it was; move it away first.`;
    throw new JsonlError("exists", message);
  }
  if (linkNew(path, keepAs, calls)) return [];
  const view = openView(path, { calls });
  try {
    createWhole(keepAs, pieces(view), { mode: Number(original.mode) & 0o777, calls });
  } finally {
    view.close();
  }
  return [keepAs];
}

/** True for two files with the same bytes: an attempt that did not get further left one of them. */
function holdsSame(path: string, other: string, calls: FileCalls): boolean {
  const one = openView(path, { calls });
  try {
    const two = openView(other, { calls });
    try {
      if (one.size !== two.size) return false;
      for (let offset = 0; offset < one.size; offset += PIECE)
        if (Buffer.compare(one.read(offset, PIECE), two.read(offset, PIECE)) !== 0) return false;
      return true;
    } finally {
      two.close();
    }
  } finally {
    one.close();
  }
}

/** Bytes that are read at a time. */
const PIECE = 1 << 20;

function* pieces(view: ByteView): Generator<Uint8Array, void> {
  for (let offset = 0; offset < view.size; offset += PIECE) yield view.read(offset, PIECE);
}
