import { constants } from "node:fs";
import { resolve } from "node:path";
import { closeFile } from "./close-file.ts";
import { discard, type WholeFileOptions, writeDraft } from "./draft.ts";
import { type FileCalls, nodeFileCalls } from "./file-calls.ts";
import { syncFolderOf } from "./folder.ts";
import { linkNew } from "./link-new.ts";
import { writingCall } from "./writing-call.ts";

/**
 * Makes a new file appear whole and on disk: written beside, synced, put under its name without overwriting, the
 * folder synced. When it throws, there is no file and nothing is left of it.
 *
 * @throws JsonlError `exists`, `not-found` (no such folder), `short-write`, `write-failed`; whatever `chunks` throws
 */
export function createWhole(
  path: string,
  chunks: Iterable<Uint8Array>,
  options: WholeFileOptions = {},
): void {
  const absolute = resolve(path);
  const { mode = 0o600, calls = nodeFileCalls } = options;
  const draft = writeDraft(absolute, chunks, mode, calls);
  const made = [draft];
  try {
    if (linkNew(draft, absolute, calls)) {
      made.push(absolute);
      writingCall(absolute, () => calls.unlinkSync(draft));
    } else {
      claim(absolute, mode, calls);
      made.push(absolute);
      writingCall(absolute, () => calls.renameSync(draft, absolute));
    }
    writingCall(absolute, () => syncFolderOf(absolute, calls));
  } catch (error) {
    discard(made, calls);
    throw error;
  }
}

/** Where there are no hard links, an empty file takes the name, so that the rename over it overwrites nobody's. */
function claim(path: string, mode: number, calls: FileCalls): void {
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL;
  closeFile(
    path,
    writingCall(path, () => calls.openSync(path, flags, mode)),
    calls,
  );
}
