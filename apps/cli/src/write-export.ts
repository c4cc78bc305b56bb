import { realpathSync, statSync } from "node:fs";
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import type { Session } from "@espalier/engine";
import type { ExportOptions } from "@espalier/interop";
import { agentOfFile } from "@espalier/interop/node";
import { scanLines } from "@espalier/jsonl-stream";
import { createWhole, withView } from "@espalier/jsonl-stream/node";
import { readSessionLine } from "@espalier/session-tree";
import { CommandError } from "./failure.ts";

/**
 * Writes an export to a file of mode 0600, all of it or nothing. An older export is replaced; a session is not.
 * Returns the absolute path and the number of entries.
 *
 * @param pieces the text; the generator returns the number of entries
 * @param option option that names the file, for the error; empty when there is none
 * @throws CommandError `exists`; EspalierError `not-found`, `short-write`, `write-failed`
 */
export function writeExport(path: string, pieces: Generator<string, number>, option = "") {
  const file = resolve(path);
  const count = { entries: 0 };
  const chunks = chunksOf(pieces, count);
  const older = statSync(file, { throwIfNoEntry: false });
  if (!older) createWhole(file, chunks);
  else if (older.isFile() && !holdsSession(file)) createWhole(realpathSync(file), chunks, { replaces: true });
  else
    throw new CommandError(
      "exists",
      `${path} is ${older.isFile() ? "a session" : "not a file"} and was not changed; choose another name${option && ` with ${option}`}.`,
    );
  return { file, entries: count.entries };
}

/** Number of lines that are read to recognize a session, since the first lines may be damaged or missing. */
const LOOKED_AT = 20;

/** Returns whether a file is a session of this program or of another agent. */
function holdsSession(file: string): boolean {
  if (agentOfFile(file)) return true;
  return withView(file, (view) => {
    let looked = 0;
    for (const { bytes } of scanLines(view)) {
      const { is } = readSessionLine(bytes);
      if (is === "header" || is === "entry") return true;
      if (++looked === LOOKED_AT) break;
    }
    return false;
  });
}

function* chunksOf(pieces: Generator<string, number>, count: { entries: number }): Generator<Uint8Array> {
  let next = pieces.next();
  for (; !next.done; next = pieces.next()) yield encoder.encode(next.value);
  count.entries = next.value;
}

const encoder = new TextEncoder();

/** Exports a session as one page that needs only a browser. The generator returns the number of entries. */
export async function exportHtml(
  session: Session,
  options: Pick<ExportOptions, "at" | "redact">,
): Promise<Generator<string, number>> {
  const { htmlOf } = await import("@espalier/viewer");
  return htmlOf(session, { ...options, page: VIEWER_PAGE });
}

/** The viewer's page, which is built into this program. */
export const VIEWER_PAGE = fileURLToPath(new URL("assets/viewer.html", import.meta.url));
