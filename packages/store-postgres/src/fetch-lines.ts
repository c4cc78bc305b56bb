import type { GrowingBytes } from "@espalier/session-tree";
import { addLine } from "./add-line.ts";
import type { Database } from "./database.ts";
import { gone } from "./insert-lines.ts";
import { persistently } from "./persistently.ts";
import type { Extent, SessionPlace } from "./session-place.ts";

/** Bytes and lines that one statement fetches at the most; a line that is longer comes alone. */
const PAGE_BYTES = 4 * 1024 * 1024;
const PAGE_LINES = 10_000;

const FETCH = {
  name: "espalier-fetch",
  text: `SELECT line, raw FROM espalier.line
    WHERE session = $1 AND position >= $2 AND position < $3 AND at < $4 ORDER BY position`,
};

/** A line as it was fetched. */
export interface FetchedLine {
  line: string | null;
  raw: Uint8Array | null;
}

/** Lines from a position on, page by page, in order. */
async function* fetchLines(
  database: Database,
  { key, ref }: SessionPlace,
  from: Extent,
  to: Extent,
): AsyncGenerator<Uint8Array[]> {
  const at = { ...from };
  while (at.lines < to.lines) {
    const end = Math.min(to.lines, at.lines + PAGE_LINES);
    const rows = await persistently(database, () =>
      database.query<FetchedLine>(FETCH, [key, at.lines, end, at.bytes + PAGE_BYTES]),
    );
    if (rows.length === 0) throw gone(ref);
    const lines = rows.map(bytesOfLine);
    at.lines += lines.length;
    for (const { length } of lines) at.bytes += length + 1;
    yield lines;
  }
}

/** Adds the lines of `[from, to)` to bytes that end where they begin. */
export async function fetchInto(
  bytes: GrowingBytes,
  database: Database,
  place: SessionPlace,
  from: Extent,
  to: Extent,
): Promise<void> {
  for await (const lines of fetchLines(database, place, from, to)) {
    for (const line of lines) addLine(bytes, line);
  }
}

export function bytesOfLine({ line, raw }: FetchedLine): Uint8Array {
  return line === null ? new Uint8Array(raw!) : encoder.encode(line);
}

const encoder = new TextEncoder();
