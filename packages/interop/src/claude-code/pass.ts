import type { Entry } from "@espalier/session-tree";
import { FormatIssues } from "../formats/conversation.ts";
import { type EntryBody, entryOf, idFromText } from "../import/entry.ts";
import type { ImportIssues } from "../import/issue.ts";
import type { ScratchArea } from "../scratch/space.ts";
import type { ClaudeCodeFile } from "./file.ts";
import { headOf, partsOf } from "./joined-lines.ts";
import { type Line, LineKind } from "./line-facts.ts";
import { type Boundary, hasPlace } from "./lines.ts";

/** State of one pass over the rows of one session. */
export type Pass = ReturnType<typeof newPass>;

/** @param run first row of a sub-agent's run, or `MAIN` */
export function newPass(file: ClaudeCodeFile, run: number, issues: ImportIssues, area: ScratchArea) {
  const { lines, facts } = file;
  return {
    file,
    lines,
    run,
    issues,
    /** Time of the line that is being read. */
    time: facts.time,
    /** Model of the last answer. Answers that the agent itself wrote get it, because they have to name a model. */
    model: "unknown",
    /** Priority of the current name: a name with lower priority does not replace it. */
    rank: 0,
    /** Issues of the content of the current row. */
    content: new FormatIssues(),
    /** 1 for each answer whose tokens were counted. */
    counted: area.column(Uint8Array),
    /** Boundaries that were written before their summary was read: both become separate entries. */
    alone: new Set<number>(),
    /** Results that an export made for calls of the session: its session goes on without them. */
    made: new Set<number>(),
    /** 1 for rows whose parent is written first, now or earlier. */
    waiting: area.column(Uint8Array),
    /** Parent row of each written row; -1 for a root. */
    above: area.column(Int32Array, -1),
    /** Number of a row's own entries, without added edits; negative when no model reads any of them; 0 before it is written. */
    count: area.column(Int32Array),
    /** Ids of parents for the children of recent rows, at the index of the row's last bits, with the row. */
    recentIds: [] as string[],
    recentRows: [] as number[],
    /** Ids of parents that differ from the row's own id: those of compactions. */
    otherIds: new Map<number, string>(),
    /** Last written row; -1 before the first. */
    last: -1,
    /** Id of the state that was written after the last row: the next child of that row follows the state. */
    behind: undefined as string | undefined,
    /** For an answer that calls several tools, the last row that was written while they ran; -1 for all others. */
    tail: area.column(Int32Array, -1),
    /** Row of the answer to whose calls a row belongs; -1 for all others. */
    batch: area.column(Int32Array, -1),
  };
}

/** Returns whether a row has a position in the session. */
export function isPlaced({ lines, run, made }: Pass, row: number): boolean {
  return hasPlace(lines, row) && lines.run.get(row) === run && !made.has(row);
}

/** Returns the parsed lines of an answer, or the line of another row; without those that cannot be read. */
export function linesOf({ file, lines }: Pass, row: number): Line[] {
  const read = partsOf(row, lines).map((part) => file.lineAt(part));
  return read.filter((line) => line !== undefined);
}

/** Position of a row in the tree. */
export interface Place {
  /** Row above; -1 for a root. */
  row: number;
  /** Kept lines that are in the context at this row, and that are not on the row's own branch. */
  unfollowed: readonly number[];
}

export const ROOT_PLACE: Place = { row: -1, unfollowed: [] };

/** Maximum number of steps from a line of the conversation up through lines of sub-agents. */
const REACH = 10_000;

/** Returns the row whose entry includes a row: the first line of an answer, the boundary of a summary. */
export function entryRow({ lines, alone }: Pass, row: number): number {
  const boundary = lines.summaries.get(row);
  return boundary && !alone.has(boundary.row) ? boundary.row : headOf(row, lines);
}

/** Returns the row that children of a row follow: those of a summary follow the lines between boundary and summary. */
export function lastRow(pass: Pass, row: number): number {
  const boundary = pass.lines.summaries.get(row);
  return entryRow(pass, boundary && !pass.alone.has(boundary.row) ? boundary.tail : row);
}

/**
 * Returns the position of an entry row before its content is read. A line that was written after a compaction, and has a
 * line kept by it as its parent, follows the compaction. Lines of other sessions in between are skipped.
 */
export function placeOf(pass: Pass, row: number): Place {
  const { parent, keeping } = pass.lines;
  const stated = parent.get(row);
  const compacted = keeping.get(stated)?.findLast(({ summary }) => summary < row);
  const unfollowed = compacted ? keptAfter(pass, stated, compacted) : [];
  let above = lastRow(pass, compacted ? compacted.summary : stated);
  for (let step = 0; above >= 0 && !isPlaced(pass, above) && step < REACH; step++) above = parent.get(above);
  return isPlaced(pass, above) ? { row: lastRow(pass, above), unfollowed } : ROOT_PLACE;
}

/** Returns the entry rows of the lines that a compaction keeps after a kept row, without that row's own. */
function keptAfter(pass: Pass, row: number, { kept }: Boundary): number[] {
  const later = new Set(kept.slice(kept.indexOf(row) + 1).map((each) => entryRow(pass, each)));
  later.delete(entryRow(pass, row));
  return [...later];
}

/**
 * Returns the position of an entry row when it is read and its ancestors are written. Results of one answer, which are
 * side by side below their calls in the file, follow one another, so that all of them are on the path of later lines.
 */
export function settle({ lines, batch, tail }: Pass, row: number, place: Place, isResult: boolean): Place {
  const own = batch.get(place.row);
  const answer = own >= 0 ? own : lines.message.get(place.row);
  const end = tail.get(answer);
  if (end < 0) return place;
  const kind = lines.kind.get(row);
  // Lines that are neither messages nor answers never continue a conversation.
  const isBeside = kind !== LineKind.user && kind !== LineKind.assistant;
  const joins = isResult || isBeside || lines.message.get(row) === answer;
  if (joins) {
    batch.set(row, answer);
    tail.set(answer, row);
  }
  return joins || own >= 0 ? { ...place, row: end } : place;
}

/** Registers the calls of a written answer. */
export function answered({ lines, tail }: Pass, row: number, calls: number): void {
  const answer = lines.message.get(row);
  if (answer >= 0 && (tail.get(answer) >= 0 || calls > 1 || lines.split.has(row))) tail.set(answer, row);
}

/** An entry whose parent and time are not set yet. */
export interface UnplacedEntry {
  id: string;
  body: EntryBody;
}

/** Number of recent ids that are kept. Children of a row usually follow soon. */
const REMEMBERED = 1 << 10;

/** Returns the ids of the entries of one line: the last entry, which other entries follow, has the line's own id. */
export function lineIds(id: string, count: number): string[] {
  return Array.from({ length: count }, (_, at) => (at === count - 1 ? id : idFromText(`${id}/${at}`)));
}

/** Returns the ids of the entries of a written row, without added edits. */
export function idsOf({ file, count }: Pass, row: number): string[] {
  return lineIds(file.idOf(row), Math.abs(count.get(row)));
}

/** Returns the id of the parent for children of a row; null for a root. */
export function idUnder(pass: Pass, row: number): string | null {
  if (row === pass.last && pass.behind !== undefined) return pass.behind;
  if (pass.count.get(row) === 0) return null;
  const at = row % REMEMBERED;
  if (pass.recentRows[at] === row) return pass.recentIds[at]!;
  return pass.otherIds.get(row) ?? pass.file.idOf(row);
}

/**
 * Makes the entries of a row, each under the previous one, below the row `above`.
 *
 * @param said.own id of the row's own entry; undefined if the last entry has another id
 * @param said.count number of entries of the row itself, negative when no model reads any of them
 */
export function grow(
  pass: Pass,
  row: number,
  above: number,
  unplaced: readonly UnplacedEntry[],
  { own, count }: { own: string | undefined; count: number },
): Entry[] {
  let parentId = idUnder(pass, above);
  const entries: Entry[] = [];
  for (const { id, body } of unplaced) {
    entries.push(entryOf(body, id, parentId, pass.time.iso));
    parentId = id;
  }
  if (parentId !== null) {
    pass.recentIds[row % REMEMBERED] = parentId;
    pass.recentRows[row % REMEMBERED] = row;
    if (parentId !== own) pass.otherIds.set(row, parentId);
  }
  pass.above.set(row, above);
  pass.count.set(row, count);
  pass.last = row;
  pass.behind = undefined;
  return entries;
}
