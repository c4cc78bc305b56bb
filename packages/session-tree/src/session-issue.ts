/**
 * What is wrong with a place in a log. None of these stops a reader.
 *
 * - `torn-tail`: the last line has no end and does not parse: a write that was cut
 * - `unterminated-tail`: the last line has no end, and parses: it counts
 * - `corrupt`: a line that is no entry, or whose body cannot be read
 * - `salvaged`: an entry found behind a torn one on the same line
 * - `glued`: an entry on the line of a whole header or entry, without a newline between them; both count
 * - `duplicate-id`: a second entry with an id that is taken
 * - `identical-duplicate`: the same line again; it counts once
 * - `orphan`: the parent is missing, below, or the entry itself; it stands as a root of its own
 * - `bad-reference`: a first kept entry, edit, label or leaf that names nothing above it (or, for the first two, not on its path)
 * - `invalid-entry`: a known type that lacks what its type needs
 * - `duplicate-header`: a second header line
 * - `no-header`, `version`: readable, and not to be written
 * - `blank-beginning`: blank lines before the header; they say nothing
 * - `large-line`, `large-file`: fine, and worth knowing
 */
export type SessionIssueKind =
  | "torn-tail"
  | "unterminated-tail"
  | "corrupt"
  | "salvaged"
  | "glued"
  | "duplicate-id"
  | "identical-duplicate"
  | "orphan"
  | "bad-reference"
  | "invalid-entry"
  | "duplicate-header"
  | "no-header"
  | "version"
  | "blank-beginning"
  | "large-line"
  | "large-file";

/** One thing that is wrong, and where. Messages never quote what the line says. */
export interface SessionIssue {
  kind: SessionIssueKind;
  /** From 1; null where lines were not counted, as for a reference that names nothing. */
  line: number | null;
  /** Of the line's first byte. */
  offset: number;
  /** The entry it is about, when there is one. */
  id: string | null;
  message: string;
}

/** Kinds that `doctor` mentions without calling the session damaged. */
const HARMLESS: ReadonlySet<SessionIssueKind> = new Set([
  "glued",
  "identical-duplicate",
  "blank-beginning",
  "large-line",
  "large-file",
]);

/** True for an issue that means something is lost, doubtful or in the way. */
export function isDamage(issue: SessionIssue): boolean {
  return !HARMLESS.has(issue.kind);
}
