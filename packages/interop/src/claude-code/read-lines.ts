import { type ByteView, forEachLine, parseLine, salvageLine } from "@espalier/jsonl-stream";
import { isRecord } from "@espalier/session-tree";
import type { ImportIssueKind, ImportIssues } from "../import/issue.ts";
import { HashRuns } from "../scratch/hash-runs.ts";
import type { ScratchArea } from "../scratch/space.ts";
import {
  factsOf,
  hasPlace,
  kindOfLine,
  type Line,
  type LineFacts,
  LineFactsReader,
  LineKind,
  LineMark,
} from "./line-facts.ts";
import { type LinePlace, LineTable } from "./line-table.ts";
import { reasonToLeaveOut } from "./user-bodies.ts";

/** What the first pass over a file found. */
export interface FileLines {
  table: LineTable;
  forks: ForkClaims;
  /** Lines of the file, blank ones aside. */
  count: number;
}

/**
 * Reads where the lines of a file belong, in one pass.
 *
 * @param keep takes each row's line, parsed; without it, only what cannot be told from the bytes is parsed
 */
export function readLineTable(
  view: ByteView,
  area: ScratchArea,
  issues: ImportIssues,
  keep?: (row: number, line: Line) => void,
): FileLines {
  const builder = new TableBuilder(view, area, issues, keep);
  forEachLine(view, (block, start, end, offset, lineNumber, terminated) => {
    // A byte order mark stands before the content, not in it.
    const contentOffset = offset === 0 && start > 0 ? start : offset;
    builder.take(block, start, end, { lineNumber, offset: contentOffset, length: end - start }, terminated);
  });
  return builder.finish();
}

class TableBuilder {
  readonly #table: LineTable;
  readonly #forks: ForkClaims;
  readonly #facts = new LineFactsReader();
  readonly #view: ByteView;
  readonly #issues: ImportIssues;
  readonly #keep: ((row: number, line: Line) => void) | undefined;
  #count = 0;
  /** Number of the first line of which nothing could be read. */
  #firstLost = Number.POSITIVE_INFINITY;

  constructor(
    view: ByteView,
    area: ScratchArea,
    issues: ImportIssues,
    keep?: (row: number, line: Line) => void,
  ) {
    this.#table = new LineTable(area);
    this.#forks = new ForkClaims(area);
    this.#view = view;
    this.#issues = issues;
    this.#keep = keep;
  }

  take(block: Uint8Array, start: number, end: number, place: LinePlace, terminated: boolean): void {
    if (isBlank(block, start, end)) return;
    this.#count++;
    const parsed = this.#keep && parseLine(block.subarray(start, end));
    if (parsed?.ok && isRecord(parsed.value)) this.#addParsed(parsed.value, place);
    else {
      const facts = this.#facts.read(block, start, end);
      if (facts) this.#add(facts, place);
      else this.#parse(block.subarray(start, end), place, terminated);
    }
  }

  finish(): FileLines {
    const table = this.#table;
    const tell = (kind: ImportIssueKind, row: number, message: string) =>
      this.#issues.add(kind, table.lineNumber(row), message);
    table.settle({
      isSame: (row, first) => {
        const isSame = this.#isSame(row, first);
        if (isSame) tell("duplicate-line", row, "The same line stands above; it counts once.");
        return isSame;
      },
      isNamesake: (row) => {
        table.mark(row, LineMark.renamed);
        tell("duplicate-id", row, "Another line above has this id; this one gets another here.");
      },
      isMissing: (row) => {
        const above = this.#rowBeforeGap(row);
        if (above < 0) return tell("phantom-parent", row, PHANTOM_PARENT);
        table.bridge(row, above);
        tell("bridged", row, BRIDGED);
      },
    });
    table.dropDeadEnds(LineKind.progress, (row) => tell("bookkeeping", row, PROGRESS));
    this.#forks.apply(table);
    return { table, forks: this.#forks, count: this.#count };
  }

  /** The message before a row whose parent was lost with an unreadable line; -1 where no line was lost before it. */
  #rowBeforeGap(row: number): number {
    const table = this.#table;
    if (this.#firstLost > table.lineNumber(row)) return -1;
    const isSide = table.has(row, LineMark.sidechain);
    for (let above = row - 1; above >= 0; above--) {
      const kind = table.kind(above);
      if (!hasPlace(kind) || kind === LineKind.progress) continue;
      if (table.has(above, LineMark.sidechain) === isSide) return above;
    }
    return -1;
  }

  /** A line of whose bytes alone nothing can be told. */
  #parse(bytes: Uint8Array, place: LinePlace, terminated: boolean): void {
    const { lineNumber, offset, length } = place;
    const parsed = parseLine(bytes);
    const salvaged = parsed.ok || !terminated ? undefined : salvageLine(bytes, '{"');
    const line = parsed.ok ? parsed.value : salvaged?.value;
    if (isRecord(line)) {
      const start = salvaged?.start ?? 0;
      if (salvaged) this.#issues.add("salvaged", lineNumber, SALVAGED);
      this.#addParsed(line, { lineNumber, offset: offset + start, length: length - start });
    } else if (terminated || parsed.ok) {
      this.#firstLost = Math.min(this.#firstLost, lineNumber);
      this.#issues.add("bad-line", lineNumber, BAD_LINE);
    } else this.#issues.add("torn-line", lineNumber, "The last line was cut while it was written.");
  }

  #addParsed(line: Line, place: LinePlace): void {
    const row = this.#add(factsOf(line), place);
    if (row >= 0) this.#keep?.(row, line);
  }

  /** The row of the line; -1 when it becomes none. */
  #add(facts: LineFacts, place: LinePlace): number {
    const table = this.#table;
    const { id, type, parentId, forkedFrom } = facts;
    const kind = kindOfLine(type, id.length > 0);
    if (kind === LineKind.aside) {
      const reason = reasonToLeaveOut(type);
      if (reason === undefined) return table.add(NO_BYTES, kind, facts, place);
      this.#issues.add("bookkeeping", place.lineNumber, reason);
      return -1;
    }
    const row = table.add(id, kind, facts, place);
    if (id.length === 0) {
      table.mark(row, LineMark.renamed);
      this.#issues.add("no-id", place.lineNumber, "A message has no id; it gets one here.");
    }
    if (parentId !== undefined) table.follow(row, parentId);
    if (forkedFrom !== undefined) this.#forks.claim(row, forkedFrom);
    return row;
  }

  #isSame(row: number, first: number): boolean {
    const table = this.#table;
    const length = table.lineLength(row);
    if (table.lineLength(first) !== length) return false;
    const above = this.#view.read(table.offset(first), length);
    const here = this.#view.read(table.offset(row), length);
    return above.every((byte, at) => byte === here[at]);
  }
}

const NO_BYTES = new Uint8Array();
const PHANTOM_PARENT = "The line follows one that is not in the file; it stands as a root.";

const BRIDGED =
  "The line that this one follows was lost with one that cannot be read; it follows the message before it in the file, behind a mark.";
const PROGRESS = "Progress of a tool or hook that led to nothing said.";
const SALVAGED = "A whole line stood behind one that was cut; it counts.";
const BAD_LINE = "The line cannot be read: it is not the JSON of an object.";

function isBlank(block: Uint8Array, start: number, end: number): boolean {
  for (let at = start; at < end; at++) {
    const byte = block[at];
    if (byte !== 32 && byte !== 9 && byte !== 13) return false;
  }
  return true;
}

/**
 * What the lines of a fork say of where they were copied from. A copied line gets the id of its original, so that the
 * two are one entry and its tokens are counted once.
 */
class ForkClaims {
  /** The session that the file was forked from. */
  sessionId: string | undefined;
  /** The last copied row; -1 when there is none. */
  lastRow = -1;
  readonly #hash: ScratchArea["hash"];
  /** Rows by the hash of the original's id. */
  readonly #claims: HashRuns;

  constructor(area: ScratchArea) {
    this.#hash = area.hash;
    this.#claims = new HashRuns(area);
  }

  claim(row: number, forkedFrom: unknown): void {
    if (!isRecord(forkedFrom)) return;
    const { sessionId, messageUuid } = forkedFrom;
    if (typeof sessionId === "string") this.sessionId ??= sessionId;
    if (typeof messageUuid !== "string" || messageUuid === "") return;
    this.#hash.hashText(messageUuid);
    this.#claims.add(this.#hash, row);
  }

  /**
   * Gives copied lines the ids of their originals. An id that several lines claim is the place of the fork, and the
   * original of none of them.
   */
  apply(table: LineTable): void {
    this.#claims.forEachHash((hash, row, count) => {
      const own = table.rowOfHash(hash);
      if (count > 1 || table.has(row, LineMark.renamed) || (own >= 0 && own !== row)) return;
      table.mark(row, LineMark.claimed);
      this.lastRow = Math.max(this.lastRow, row);
    });
  }
}

/** The id of a line's original, as the line says it. */
export function originalId(line: Record<string, unknown> | undefined): unknown {
  const forkedFrom = line?.["forkedFrom"];
  return isRecord(forkedFrom) ? forkedFrom["messageUuid"] : undefined;
}
