import { type ByteView, forEachLine } from "@espalier/jsonl-stream";
import {
  FORMAT_VERSION,
  GrowingBytes,
  parsedHeader,
  type SessionHeader,
  upgradeLog,
} from "@espalier/session-tree";
import { addLine } from "./add-line.ts";
import { type LineRow, rowOfHeader, rowOfLine } from "./line-row.ts";

/**
 * The rows of a header and lines. A session of an old format has its lines as they are, and beside them, for lists and
 * reports, what they read as; it is read as a whole.
 */
export function rowsOf(header: string, lines: Iterable<string | Uint8Array>): LineRow[] {
  const { version } = parsedHeader(header);
  if (version >= FORMAT_VERSION) return [rowOfHeader(header), ...plainRows(lines)];
  const stored = [header, ...lines].map((line) => rowOfLine(line));
  const current = currentRows(upgraded(stored, parsedHeader(header)));
  return stored.map(({ text, raw, bytes }, at) => ({ ...current[at]!, text, raw, bytes, isPlain: false }));
}

/** What lines of an old format read as, line for line. */
function upgraded(stored: readonly LineRow[], header: SessionHeader): ByteView {
  const bytes = new GrowingBytes(new Uint8Array());
  for (const row of stored) addLine(bytes, row.bytes);
  return upgradeLog(bytes.view(), header)!.view;
}

/** The rows of a session of an old format as it reads. */
export function currentRows(view: ByteView): LineRow[] {
  const [header, ...lines] = linesOf(view);
  return [rowOfHeader(decoder.decode(header)), ...plainRows(lines)];
}

/** Lines of a view, without their ends. */
function linesOf(view: ByteView): Uint8Array[] {
  const lines: Uint8Array[] = [];
  forEachLine(view, (block, start, end) => void lines.push(block.slice(start, end)));
  return lines;
}

/**
 * Rows whose ids are their own and whose parents stand above them, as the keys of the table want it. Another one keeps
 * its line, without a place in the keys, and makes the session one that is read as a whole.
 */
function plainRows(lines: Iterable<string | Uint8Array>): LineRow[] {
  const above = new Set<string>();
  const rows: LineRow[] = [];
  for (const line of lines) {
    const row = rowOfLine(line);
    const isTaken = row.id !== null && above.has(row.id);
    const isOrphan = row.parent !== null && !above.has(row.parent);
    if (row.id !== null) above.add(row.id);
    rows.push({
      ...row,
      id: isTaken ? null : row.id,
      parent: isTaken || isOrphan ? null : row.parent,
      isPlain: row.isPlain && !isTaken && !isOrphan,
    });
  }
  return rows;
}

const decoder = new TextDecoder();
