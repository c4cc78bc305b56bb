/**
 * Kind of an issue of an import. The first five are about lines without an entry; the others are about lines with one, or
 * about the whole file.
 *
 * - `bad-line`: not JSON, or not an object; it cannot be read
 * - `torn-line`: the last line, which has no end and cannot be read: an interrupted write
 * - `duplicate-line`: the same line again
 * - `bookkeeping`: known, and not about the conversation; the message has the reason
 * - `repeats`: repeats the content of other lines
 * - `not-a-session`, `unreadable`, `newer-version`: the whole file
 * - `salvaged`: a whole line after a torn one
 * - `unreadable-content`: a line of which only the position can be kept
 * - `duplicate-id`: another line above has this id
 * - `no-id`: a message without an id of its own
 * - `phantom-parent`: the parent is missing in the file; the entry becomes a root
 * - `bridged`: the parent is lost; the entry follows the previous one in the file (a message does so after a mark)
 * - `no-header`: the file has no header line; one was made for it
 * - `cycle`: lines that follow one another in a circle; it is cut at the first
 * - `unknown-type`: stored unchanged, under its own name
 * - `no-summary`: a compaction whose summary is not in the file
 * - `kept-elsewhere`: messages that a compaction keeps and that are not above it
 * - `missing-base`: the file that this one continues or copies is missing
 * - `base-mismatch`: the file that this one continues has another length than this one records
 * - `rollback`: more turns to undo than the conversation has
 * - `opaque-summary`: a summary that only its provider can read
 * - `content`: a part of a message that was changed
 */
export type ImportIssueKind =
  | "bad-line"
  | "torn-line"
  | "duplicate-line"
  | "bookkeeping"
  | "repeats"
  | "not-a-session"
  | "unreadable"
  | "newer-version"
  | "salvaged"
  | "unreadable-content"
  | "duplicate-id"
  | "no-id"
  | "phantom-parent"
  | "bridged"
  | "no-header"
  | "cycle"
  | "unknown-type"
  | "no-summary"
  | "kept-elsewhere"
  | "missing-base"
  | "base-mismatch"
  | "rollback"
  | "opaque-summary"
  | "content";

/** An issue of an import, with all lines of the source that have it. Messages never quote the content of a line. */
export interface ImportIssue {
  kind: ImportIssueKind;
  /** First line concerned, from 1; null for an issue of the whole file. */
  line: number | null;
  /** First entry concerned; null when the issue names none. */
  id: string | null;
  message: string;
  /** Number of occurrences. A line can have several. */
  count: number;
  /** Lines concerned, such as `3, 7-9`; empty for an issue of the whole file. */
  lines: string;
}

interface Collected extends Pick<ImportIssue, "kind" | "id" | "message" | "count"> {
  /** First and last line of each run, one after the other. */
  runs: number[];
}

/** Collects issues: one for each kind and message with all its lines, so that a long file has a short report. */
export class ImportIssues {
  readonly #collected = new Map<string, Collected>();

  /**
   * Adds an issue of a line; null: of the whole file.
   *
   * @param message one sentence; lines with the same kind and message become one issue
   */
  add(kind: ImportIssueKind, line: number | null, message: string, id: string | null = null): void {
    const key = `${kind} ${message}`;
    let collected = this.#collected.get(key);
    if (!collected) {
      collected = { kind, id, message, count: 0, runs: [] };
      this.#collected.set(key, collected);
    }
    collected.count++;
    if (line !== null) addToRuns(collected.runs, line);
  }

  /** Returns one issue for each kind and message, in the order of their first occurrence. */
  list(): ImportIssue[] {
    return [...this.#collected.values()].map(({ kind, id, message, count, runs }) => {
      const line = runs[0] ?? null;
      return { kind, line, id, message, count, lines: formatRuns(runs) };
    });
  }
}

function addToRuns(runs: number[], line: number): void {
  if (runs.at(-1) === line - 1) runs[runs.length - 1] = line;
  else if (runs.at(-1) !== line) runs.push(line, line);
}

function formatRuns(runs: readonly number[]): string {
  const parts: string[] = [];
  for (let at = 0; at < runs.length; at += 2) {
    parts.push(runs[at] === runs[at + 1] ? `${runs[at]}` : `${runs[at]}-${runs[at + 1]}`);
  }
  return parts.join(", ");
}
