import { isRecord } from "@espalier/session-tree";
import type { KnownEntry } from "../import/draft.ts";
import { uuidOfLine } from "../import/entry.ts";
import type { ImportIssues } from "../import/issue.ts";
import { type Line, LineKind, LineMark } from "./line-facts.ts";
import { type Boundary, has, type Lines, rowBefore } from "./lines.ts";

/** Maximum number of steps up to another line of the same answer; results and attachments can be between both. */
const ANSWER_REACH = 64;

/**
 * Joins the lines that are parts of one answer. An answer is written one line for each block of its content, and read as
 * one message. Lines belong together when they name the same answer and one is above the other.
 */
export function joinAnswers(lines: Lines): void {
  lines.split.clear();
  for (const column of [lines.head, lines.before])
    for (let row = 0; row < lines.length; row++) if (column.get(row) >= 0) column.set(row, -1);
  for (let row = 0; row < lines.length; row++) {
    if (lines.message.get(row) < 0) continue;
    const head = topOf(row, lines);
    lines.head.set(row, head);
    if (head !== row) join(row, head, lines);
  }
}

function join(row: number, head: number, { before }: Lines): void {
  before.set(row, before.get(head));
  before.set(head, row);
}

/** Returns the topmost line of the same answer. Stops at rows that were joined before. */
function topOf(row: number, { message, parent, head, kind }: Lines): number {
  let top = row;
  let at = parent.get(row);
  for (let step = 0; step < ANSWER_REACH && at >= 0 && at !== row; step++) {
    if (message.get(at) === message.get(row)) {
      if (head.get(at) >= 0) return head.get(at);
      top = at;
    } else if (kind.get(at) === LineKind.assistant) break;
    at = parent.get(at);
  }
  return top;
}

/** Returns the row of the whole answer; any other row unchanged. */
export function headOf(row: number, { head }: Lines): number {
  return head.get(row) < 0 ? row : head.get(row);
}

/** Returns all rows of an answer, in file order; any other row alone. */
export function partsOf(head: number, { before }: Lines): number[] {
  const parts = [head];
  for (let part = before.get(head); part >= 0; part = before.get(part)) parts.push(part);
  return parts.length === 1 ? parts : parts.sort((a, b) => a - b);
}

/**
 * Makes lines that earlier imports did not see separate answers.
 *
 * @param known returns earlier imported entries
 */
export function splitAnswers(
  lines: Lines,
  idOf: (row: number) => string,
  known: (id: string) => KnownEntry | undefined,
): void {
  for (let row = 0; row < lines.length; row++) {
    if (lines.before.get(row) < 0 || headOf(row, lines) !== row) continue;
    let rest = partsOf(row, lines);
    for (let head = row; ; head = rest[0]!) {
      const id = idOf(head);
      let taken = known(id)?.lines ?? 0;
      if (taken < 1) break;
      // A continued session has one line for each block, whatever the original had.
      while (taken < rest.length && idOf(rest[taken]!) === uuidOfLine(id, taken)) taken++;
      if (taken >= rest.length) break;
      lines.split.add(head);
      gather(head, rest.slice(0, taken), lines);
      rest = rest.slice(taken);
      gather(rest[0]!, rest, lines);
    }
  }
}

/** Makes these rows one answer. */
function gather(head: number, rows: readonly number[], lines: Lines): void {
  lines.before.set(head, -1);
  for (const row of rows) {
    lines.head.set(row, head);
    if (row !== head) join(row, head, lines);
  }
}

/** Maximum number of steps from a summary up to its boundary; attachments are written between both. */
const REACH = 64;

/** Finds the compactions of a file, and moves each boundary below the leaf at which the compaction was made. */
export function joinCompactions(
  lines: Lines,
  lineAt: (row: number) => Line | undefined,
  issues: ImportIssues,
): void {
  const { boundaries, summaries, keeping } = lines;
  for (let row = 0; row < lines.length; row++) {
    const line = has(lines, row, LineMark.boundary) ? lineAt(row) : undefined;
    if (line) addBoundary(row, line, lines, issues);
  }
  for (let row = 0; row < lines.length; row++) {
    if (!has(lines, row, LineMark.summary) || summaries.has(row)) continue;
    const boundary = firstAbove(row, lines, (above) => boundaries.has(above));
    const found = boundaries.get(boundary);
    if (found && found.summary < 0) joinSummary(found, row, lines);
  }
  for (const boundary of boundaries.values())
    for (const row of boundary.summary < 0 ? [] : boundary.kept) {
      if (!keeping.get(row)?.push(boundary)) keeping.set(row, [boundary]);
    }
}

/** Returns the first row above a row that is wanted; -1 when there is none nearby. */
function firstAbove(row: number, { parent }: Lines, isWanted: (row: number) => boolean): number {
  let at = parent.get(row);
  for (let step = 0; step < REACH && at >= 0; step++, at = parent.get(at)) if (isWanted(at)) return at;
  return -1;
}

function addBoundary(row: number, line: Line, lines: Lines, issues: ImportIssues): void {
  const metadata = metadataOf(line);
  const before = line["logicalParentUuid"];
  if (typeof before === "string") {
    const named = lines.ids.rowOf(before);
    // A compaction continues the conversation, so the message before it is the best guess for one that was not written.
    const parent = named < 0 ? rowBefore(row, lines) : named;
    lines.parent.set(row, parent);
    if (named < 0) {
      const place = parent < 0 ? "shown as a separate branch" : "it is shown after the message before it";
      const message = `A compaction follows a message that is not in the file; ${place}.`;
      issues.add(parent < 0 ? "phantom-parent" : "bridged", lines.number.get(row), message);
    }
  }
  const boundary: Boundary = { row, summary: -1, tail: row, kept: keptRows(metadata, lines) };
  lines.boundaries.set(row, boundary);
  const anchor = [metadata["preservedMessages"], metadata["preservedSegment"]]
    .flatMap((place) => (isRecord(place) ? [place["anchorUuid"]] : []))
    .find((id) => typeof id === "string");
  const summary = anchor === undefined ? -1 : lines.ids.rowOf(anchor);
  if (summary >= 0 && has(lines, summary, LineMark.summary) && !lines.summaries.has(summary))
    joinSummary(boundary, summary, lines);
}

function joinSummary(boundary: Boundary, summary: number, lines: Lines): void {
  boundary.summary = summary;
  lines.summaries.set(summary, boundary);
  if (firstAbove(summary, lines, (row) => row === boundary.row) >= 0)
    boundary.tail = lines.parent.get(summary);
}

/** Returns the metadata of a boundary, unchanged; empty when there is none. */
export function metadataOf(line: Line | undefined): Line {
  return isRecord(line?.["compactMetadata"]) ? line["compactMetadata"] : {};
}

/**
 * Returns the kept rows; ids that are not in the file, and older summaries, are skipped. Older files name only the first
 * and the last line: none is kept if the first is not above the last.
 */
function keptRows({ preservedMessages, preservedSegment }: Line, lines: Lines): number[] {
  const rowOf = (id: unknown) => (typeof id === "string" ? lines.ids.rowOf(id) : -1);
  if (isRecord(preservedMessages) && Array.isArray(preservedMessages["uuids"])) {
    const rows = preservedMessages["uuids"].map(rowOf);
    // An older summary among them is not in the context after a newer one.
    return rows.filter((row) => row >= 0 && !has(lines, row, LineMark.summary));
  }
  if (!isRecord(preservedSegment)) return [];
  const head = rowOf(preservedSegment["headUuid"]);
  const rows: number[] = [];
  let at = head < 0 ? -1 : rowOf(preservedSegment["tailUuid"]);
  for (; at >= 0 && rows.length <= lines.length; at = lines.parent.get(at)) {
    rows.push(at);
    if (at === head) return rows.reverse();
  }
  return [];
}
