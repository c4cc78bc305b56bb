import type { ByteView } from "@espalier/jsonl-stream";
import { JsonlError } from "@espalier/jsonl-stream";
import { createWhole } from "@espalier/jsonl-stream/node";
import { type SessionLog, SessionTreeError } from "@espalier/session-tree";

/**
 * Writes what an open session still has into a file of its own, when its file was removed or replaced (`removed`,
 * `changed`): at its own path when nothing stands there, else beside it as `<file>.recovered-<time>.jsonl`. Nothing is
 * overwritten. Returns the path; open that to go on.
 *
 * @throws SessionTreeError `shrunk` when the lines themselves are gone; `write-failed`
 */
export async function rescueSession(log: SessionLog): Promise<string> {
  const view = await log.load();
  const beside = `${log.ref}.recovered-${new Date().toISOString().replace(/[:.]/g, "-")}.jsonl`;
  for (const path of [log.ref, beside]) {
    try {
      createWhole(path, pieces(view));
      return path;
    } catch (cause) {
      if (cause instanceof JsonlError && cause.code === "exists" && path === log.ref) continue;
      if (!(cause instanceof JsonlError)) throw cause;
      throw new SessionTreeError(
        "write-failed",
        `What is left of ${log.ref} could not be written; make room in its folder, or make it writable, and try again.`,
        {
          cause,
        },
      );
    }
  }
  return beside;
}

function* pieces(view: ByteView): Generator<Uint8Array> {
  for (let offset = 0; offset < view.size; offset += 1 << 20) yield view.read(offset, 1 << 20);
}
