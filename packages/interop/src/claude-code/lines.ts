import { type ByteView, forEachLine } from "@espalier/jsonl-stream";
import { isRecord, ROOT } from "@espalier/session-tree";
import { LINE_ISSUES, readSourceLine } from "../import/draft.ts";
import type { ImportIssues } from "../import/issue.ts";
import { HashRows, type ScratchArea } from "../scratch/space.ts";
import {
  kindOfLine,
  type Line,
  LineKind,
  LineMark,
  marksOf,
  reasonToLeaveOut,
  scanLine,
} from "./line-facts.ts";

/** A parent that is named, and was not found above its child. */
const PHANTOM = -3;

/** Mark of a row that belongs to the main conversation. */
export const MAIN = -1;

/** A compaction in the file: a line that marks its position, a line with the summary, and the kept lines. */
export interface Boundary {
  row: number;
  /** Row of the summary; -1 when it is not in the file. */
  summary: number;
  /** Last line between boundary and summary; the boundary itself when there is none. */
  tail: number;
  /** Rows that the model still reads, in order. */
  kept: number[];
}

/**
 * Lines of a file as columns of numbers. Rows are in file order. The content of a line is read again when it is needed.
 */
export type Lines = ReturnType<typeof noLines>;

function noLines(area: ScratchArea) {
  return {
    length: 0,
    /** First row of each id. */
    ids: new HashRows(area),
    offset: area.column(Float64Array),
    /** Lengths in bytes. */
    size: area.column(Uint32Array),
    /** Numbers of the lines, from 1. */
    number: area.column(Uint32Array),
    kind: area.column(Uint8Array),
    marks: area.column(Uint8Array),
    /** Parent row according to the file, or `ROOT`; that of a boundary is the leaf at which the compaction was made. */
    parent: area.column(Int32Array, ROOT),
    /** Hash of a parent that was not found above its child. */
    wantedHigh: area.column(Int32Array),
    wantedLow: area.column(Int32Array),
    /** First row of each answer. */
    answers: new HashRows(area),
    /** For each part of an answer, the first row that named the answer; -1 for all other rows. */
    message: area.column(Int32Array, -1),
    /** For each part of an answer, the row of its entry; -1 for other rows. */
    head: area.column(Int32Array, -1),
    /** For the answer's row its last part, for each part the previous one; -1 for the first. */
    before: area.column(Int32Array, -1),
    /** Answers whose later lines are a separate entry. */
    split: new Set<number>(),
    /** For each row, the first row of the sub-agent's run to which it belongs, or {@link MAIN}. */
    run: area.column(Int32Array, MAIN),
    /** First rows of all runs, in file order. */
    runs: new Set<number>(),
    /** Compactions by the rows of their boundaries. */
    boundaries: new Map<number, Boundary>(),
    /** Compactions by the rows of their summaries. */
    summaries: new Map<number, Boundary>(),
    /** Compactions with a summary, by each row that they keep. */
    keeping: new Map<number, Boundary[]>(),
    /** Id of the session from which the file was forked. */
    forkedFrom: undefined as string | undefined,
    /** Rows of copied lines, by the id of the original. */
    copies: new HashRows(area),
    /** Last copied row; -1 when there is none. */
    lastCopied: -1,
  };
}

export const has = ({ marks }: Lines, row: number, mark: number): boolean => (marks.get(row) & mark) !== 0;

const mark = ({ marks }: Lines, row: number, added: number): void => marks.set(row, marks.get(row) | added);

const unmark = ({ marks }: Lines, row: number, removed: number): void =>
  marks.set(row, marks.get(row) & ~removed);

/** Returns whether a row has a position in the tree. */
export function hasPlace({ kind }: Lines, row: number): boolean {
  const own = kind.get(row);
  return own !== LineKind.aside && own !== LineKind.repeated;
}

/** Reads the position of each line of a file in one pass; parses a line only when its bytes alone are not enough. */
export function readLines(view: ByteView, area: ScratchArea, issues: ImportIssues): Lines {
  const lines = noLines(area);
  let firstLost = Number.POSITIVE_INFINITY;

  const add = (line: Line, number: number, offset: number, size: number): void => {
    const type = textOf(line["type"]);
    const id = textOf(line["uuid"]);
    const kind = kindOfLine(type, id !== "");
    const reason = kind === LineKind.aside ? reasonToLeaveOut(type) : undefined;
    if (reason !== undefined) {
      issues.add("bookkeeping", number, reason);
      return;
    }
    const row = lines.length++;
    lines.offset.set(row, offset);
    lines.size.set(row, size);
    lines.number.set(row, number);
    lines.kind.set(row, kind);
    lines.marks.set(row, marksOf(line));
    if (kind === LineKind.aside) return;
    const first = id === "" ? row : lines.ids.add(id, row);
    if (first !== row && isSameLine(row, first, lines, view)) {
      drop(row, lines);
      issues.add("duplicate-line", number, "The same line appears twice; it was read once.");
      return;
    }
    if (first !== row || id === "") mark(lines, row, LineMark.renamed);
    if (first !== row)
      issues.add("duplicate-id", number, "Two messages have the same id; the second one got another.");
    else if (id === "") issues.add("no-id", number, "A message has no id; it got one.");
    const { parentUuid, message, forkedFrom } = line;
    const answerId = kind === LineKind.assistant && isRecord(message) ? textOf(message["id"]) : "";
    if (answerId !== "") lines.message.set(row, lines.answers.add(answerId, row));
    if (typeof parentUuid === "string") {
      const parent = lines.ids.rowOf(parentUuid);
      lines.parent.set(row, parent < 0 ? PHANTOM : parent);
      if (parent < 0) {
        lines.wantedHigh.set(row, area.hash.high);
        lines.wantedLow.set(row, area.hash.low);
      }
    }
    if (isRecord(forkedFrom)) claimCopy(row, forkedFrom, lines);
  };

  forEachLine(view, (block, start, end, from, number, terminated) => {
    // A byte order mark precedes the content and is not part of it.
    const offset = from === 0 ? start : from;
    const scanned = scanLine(block, start, end);
    if (scanned) return add(scanned, number, offset, end - start);
    const { line, skipped, issue } = readSourceLine(block.subarray(start, end), terminated, (value) =>
      isRecord(value) ? value : undefined,
    );
    if (issue) {
      issues.add(issue, number, LINE_ISSUES[issue]);
      firstLost = Math.min(firstLost, number);
    }
    if (line) add(line, number, offset + skipped, end - start - skipped);
  });

  findParents(lines, firstLost, issues);
  dropProgress(lines, issues);
  settleCopies(lines);
  return lines;
}

export const textOf = (value: unknown): string => (typeof value === "string" ? value : "");

function isSameLine(row: number, first: number, { offset, size }: Lines, view: ByteView): boolean {
  const length = size.get(row);
  if (size.get(first) !== length) return false;
  const above = view.read(offset.get(first), length);
  const here = view.read(offset.get(row), length);
  return above.every((byte, at) => byte === here[at]);
}

/**
 * Finds the parents that are below their children. A row whose parent is missing follows the row before it if an
 * unreadable or torn line above may have been the parent, or else becomes a root.
 *
 * @param firstLost number of the first line that could not be read, or of which only the end could
 */
function findParents(lines: Lines, firstLost: number, issues: ImportIssues): void {
  const { parent, number } = lines;
  for (let row = 0; row < lines.length; row++) {
    if (parent.get(row) !== PHANTOM) continue;
    const below = lines.ids.find({ high: lines.wantedHigh.get(row), low: lines.wantedLow.get(row) });
    const above = below < 0 && firstLost <= number.get(row) ? rowBefore(row, lines) : ROOT;
    parent.set(row, below < 0 ? above : below);
    if (above >= 0) {
      mark(lines, row, LineMark.bridged);
      issues.add("bridged", number.get(row), BRIDGED);
    } else if (below < 0) issues.add("phantom-parent", number.get(row), PHANTOM_PARENT);
  }
}

const PHANTOM_PARENT = "A message follows one that is not in the file; shown as a separate branch.";
const BRIDGED =
  "A message follows a damaged line; it is shown after the message before that line, with a mark between them.";

/**
 * Returns the last row above this one in the file that is in the same conversation, without progress lines; `ROOT` when
 * there is none.
 */
export function rowBefore(row: number, lines: Lines): number {
  const isSide = has(lines, row, LineMark.sidechain);
  for (let above = row - 1; above >= 0; above--)
    if (
      hasPlace(lines, above) &&
      lines.kind.get(above) !== LineKind.progress &&
      has(lines, above, LineMark.sidechain) === isSide
    )
      return above;
  return ROOT;
}

/** Marks the rows that lead to another row, and drops the rows of progress that lead to none. */
function dropProgress(lines: Lines, issues: ImportIssues): void {
  const { kind, parent } = lines;
  for (let row = 0; row < lines.length; row++) {
    if (!hasPlace(lines, row) || kind.get(row) === LineKind.progress) continue;
    for (let at = parent.get(row); at >= 0 && !has(lines, at, LineMark.followed); at = parent.get(at)) {
      mark(lines, at, LineMark.followed);
      if (kind.get(at) !== LineKind.progress) break;
    }
  }
  for (let row = 0; row < lines.length; row++) {
    if (kind.get(row) !== LineKind.progress || has(lines, row, LineMark.followed)) continue;
    issues.add("bookkeeping", lines.number.get(row), "Progress of a tool or hook that led to no message.");
    drop(row, lines);
  }
}

/** Removes a row from the tree. */
function drop(row: number, { kind, marks, parent }: Lines): void {
  kind.set(row, LineKind.repeated);
  marks.set(row, 0);
  parent.set(row, ROOT);
}

/**
 * Adds the claim of a line to be the copy of another session's line (`forkedFrom`). A copied line gets the id of its
 * original, so that both are one entry and its tokens are counted once. If several lines claim the same original, the
 * fork begins there, and none of them is a copy of it.
 */
function claimCopy(row: number, { sessionId, messageUuid }: Line, lines: Lines): void {
  if (typeof sessionId === "string") lines.forkedFrom ??= sessionId;
  if (typeof messageUuid !== "string" || messageUuid === "") return;
  const first = lines.copies.add(messageUuid, row);
  if (first === row) mark(lines, row, LineMark.claimed);
  else unmark(lines, first, LineMark.claimed);
}

/** Drops claims to the ids of other lines of the file, and claims of renamed lines; sets the last copied row. */
function settleCopies(lines: Lines): void {
  lines.copies.forEach((hash, row) => {
    if (!has(lines, row, LineMark.claimed)) return;
    const own = lines.ids.find(hash);
    if (has(lines, row, LineMark.renamed) || (own >= 0 && own !== row)) unmark(lines, row, LineMark.claimed);
    else lines.lastCopied = Math.max(lines.lastCopied, row);
  });
}

/**
 * Finds the rows of sub-agents. Old versions wrote the runs of sub-agents between the lines of the conversation. A file
 * that has no other lines is one run, which is its own conversation.
 */
export function findRuns(lines: Lines): void {
  const { run, parent } = lines;
  const isSide = (row: number) => hasPlace(lines, row) && has(lines, row, LineMark.sidechain);
  let hasMain = false;
  for (let row = 0; row < lines.length && !hasMain; row++) hasMain = hasPlace(lines, row) && !isSide(row);
  if (!hasMain) return;
  for (let row = 0; row < lines.length; row++) {
    if (!isSide(row)) continue;
    // Walks up to the first row of the run, or to a row whose run is known, and sets the run of all rows on the way.
    const walked: number[] = [];
    let at = row;
    for (; isSide(at) && run.get(at) === MAIN; at = parent.get(at)) {
      walked.push(at);
      // Set before the walk continues, so that a circle ends it.
      run.set(at, row);
    }
    const isKnown = isSide(at) && run.get(at) !== row;
    const first = isKnown ? run.get(at) : walked.at(-1)!;
    for (const member of walked) run.set(member, first);
    lines.runs.add(run.get(row));
  }
}
