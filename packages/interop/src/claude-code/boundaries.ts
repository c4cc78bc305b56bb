import { parseLine } from "@espalier/jsonl-stream";
import { isRecord } from "@espalier/session-tree";
import type { ImportIssues } from "../import-issue.ts";
import type { LineReader } from "../import-line-reader.ts";
import { LineMark } from "./line-kind.ts";
import { type LineTable, PHANTOM } from "./line-table.ts";

/** How far a summary may stand below its boundary: attachments are written between the two. */
const REACH = 64;

/** A compaction as the file has it: a line that marks the place, a line with the summary, lines that stay. */
export interface Boundary {
  row: number;
  /** The line with the summary; -1 when it is not in the file. */
  summary: number;
  /** The last line between boundary and summary; the boundary itself when there is none. */
  tail: number;
  /** Lines that the model still reads, in order. */
  kept: number[];
}

/** The compactions of a file. Finding them puts each under the leaf it was made at. */
export class Boundaries {
  readonly #byRow = new Map<number, Boundary>();
  readonly #bySummary = new Map<number, Boundary>();
  readonly #byKept = new Map<number, Boundary[]>();

  constructor(table: LineTable, lines: LineReader, issues: ImportIssues) {
    for (let row = 0; row < table.length; row++) {
      if (!table.has(row, LineMark.boundary)) continue;
      const parsed = parseLine(lines.read(table.offset(row), table.lineLength(row)));
      if (parsed.ok && isRecord(parsed.value)) this.#add(row, parsed.value, table, issues);
    }
    for (let row = 0; row < table.length; row++)
      if (table.has(row, LineMark.summary)) this.#claim(row, table);
    for (const boundary of this.#byRow.values()) if (boundary.summary >= 0) this.#relink(boundary, table);
  }

  all(): Iterable<Boundary> {
    return this.#byRow.values();
  }

  /** The compaction that a row marks the place of. */
  at(row: number): Boundary | undefined {
    return this.#byRow.get(row);
  }

  /** The compaction that a row is the summary of. */
  ofSummary(row: number): Boundary | undefined {
    return this.#bySummary.get(row);
  }

  /** The newest compaction above `row` that keeps the row `kept`. */
  keeping(kept: number, row: number): Boundary | undefined {
    return this.#byKept.get(kept)?.findLast((boundary) => boundary.summary < row);
  }

  #add(row: number, line: Record<string, unknown>, table: LineTable, issues: ImportIssues): void {
    const metadata = metadataOf(line);
    const before = line["logicalParentUuid"];
    if (typeof before === "string") {
      const parent = table.rowOf(before);
      table.setParent(row, parent < 0 ? PHANTOM : parent);
      if (parent < 0) {
        const message = "A compaction names a line before it that is not in the file; it stands as a root.";
        issues.add("phantom-parent", table.lineNumber(row), message);
      }
    }
    const boundary: Boundary = { row, summary: -1, tail: row, kept: keptRows(metadata, table) };
    this.#byRow.set(row, boundary);
    const anchor = anchorOf(metadata);
    const summary = anchor === undefined ? -1 : table.rowOf(anchor);
    if (summary >= 0 && table.has(summary, LineMark.summary) && !this.#bySummary.has(summary))
      this.#join(boundary, summary, table);
  }

  /** A summary belongs to the boundary above it. */
  #claim(row: number, table: LineTable): void {
    if (this.#bySummary.has(row)) return;
    let at = table.parent(row);
    for (let step = 0; step < REACH && at >= 0; step++) {
      const boundary = this.#byRow.get(at);
      if (boundary) {
        if (boundary.summary < 0) this.#join(boundary, row, table);
        return;
      }
      at = table.parent(at);
    }
  }

  #join(boundary: Boundary, summary: number, table: LineTable): void {
    boundary.summary = summary;
    this.#bySummary.set(summary, boundary);
    const above = table.parent(summary);
    for (let step = 0, at = above; step < REACH && at >= 0; step++, at = table.parent(at))
      if (at === boundary.row) boundary.tail = above;
  }

  /** Kept lines follow the summary, one after the other; what else follows the summary follows the last of them. */
  #relink({ summary, kept }: Boundary, table: LineTable): void {
    for (const [at, row] of kept.entries()) {
      if (at < kept.length - 1) table.mark(row, LineMark.followed);
      const boundaries = this.#byKept.get(row) ?? [];
      boundaries.push(this.#bySummary.get(summary)!);
      this.#byKept.set(row, boundaries);
    }
    if (kept.length > 0) table.mark(summary, LineMark.followed);
  }
}

/** What a boundary says of its compaction, as it is. */
export function metadataOf(line: Record<string, unknown>): Record<string, unknown> {
  return isRecord(line["compactMetadata"]) ? line["compactMetadata"] : {};
}

function anchorOf(metadata: Record<string, unknown>): string | undefined {
  for (const place of [metadata["preservedMessages"], metadata["preservedSegment"]])
    if (isRecord(place) && typeof place["anchorUuid"] === "string") return place["anchorUuid"];
  return undefined;
}

/** Ids that are not on disk are passed over. Older files name the first and the last line only. */
function keptRows(metadata: Record<string, unknown>, table: LineTable): number[] {
  const { preservedMessages, preservedSegment } = metadata;
  if (isRecord(preservedMessages) && Array.isArray(preservedMessages["uuids"])) {
    const rows = preservedMessages["uuids"].map((id) => (typeof id === "string" ? table.rowOf(id) : -1));
    // An older summary among them says nothing behind a newer one.
    return rows.filter((row) => row >= 0 && !table.has(row, LineMark.summary));
  }
  if (!isRecord(preservedSegment)) return [];
  const { headUuid, tailUuid } = preservedSegment;
  if (typeof headUuid !== "string" || typeof tailUuid !== "string") return [];
  const head = table.rowOf(headUuid);
  const rows: number[] = [];
  for (let at = table.rowOf(tailUuid); at >= 0 && rows.length <= table.length; at = table.parent(at)) {
    rows.push(at);
    if (at === head) return rows.reverse();
  }
  return [];
}
