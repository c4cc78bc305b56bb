// Separate from importer.ts: it divides the file into lines; the importer makes entries of them.
import { scanLines } from "@espalier/jsonl-stream";
import { LINE_ISSUES, readSourceLine } from "../import/draft.ts";
import { shortName } from "../import/entry.ts";
import { ImportIssues } from "../import/issue.ts";
import {
  type HistoryBase,
  itemText,
  kindOfRollout,
  type RolloutFile,
  type RolloutLibrary,
  type RolloutLine,
  readRolloutLine,
} from "./rollout.ts";

/**
 * Yields the whole history of a file: first the lines of the files that it continues, then its own lines.
 *
 * @param isImported false for a file that is only read for another one: issues name the file, and no line
 */
export function* logicalLines(
  file: RolloutFile,
  library: RolloutLibrary,
  issues = new ImportIssues(),
  isImported = true,
): Generator<LogicalLine, void> {
  for (const { file: part, until } of [...basesOf(file, library, issues), { file, until: undefined }]) {
    const isOwn = until === undefined;
    const lines = linesOf(part, until, issues, isOwn && isImported);
    const original = part.base ? undefined : originalOf(part, library, issues);
    const told = original
      ? matchCopies(lines, logicalLines(original, library, issues, false), original.threadId)
      : lines;
    if (isOwn) yield* told;
    else for (const line of told) yield { ...line, lineNumber: null, isInherited: true };
  }
}

/** Returns the files before this one, oldest first, each with its end. */
function basesOf(file: RolloutFile, library: RolloutLibrary, issues: ImportIssues) {
  const bases: { file: RolloutFile; until: HistoryBase }[] = [];
  const seen = new Set([file.segment]);
  for (let until = file.base; until; until = bases.at(-1)!.file.base) {
    const base = seen.has(until.segment) ? undefined : library.open(until.segment);
    if (!base) {
      const message = `The rollout ${shortName(until.segment, "?")}, which this one continues, is missing; the rest is imported.`;
      issues.add("missing-base", null, message);
      break;
    }
    seen.add(until.segment);
    bases.push({ file: base, until });
  }
  return bases.reverse();
}

/** Returns the file from which an old fork was copied; undefined for no fork, and for a missing original (an issue). */
function originalOf(
  file: RolloutFile,
  library: RolloutLibrary,
  issues: ImportIssues,
): RolloutFile | undefined {
  const { forkedFrom } = file;
  if (forkedFrom === undefined) return undefined;
  const original = library.open(forkedFrom);
  if (original && !isForkOf(original, file, library)) return original;
  if (file.origin) return undefined;
  const message = `The rollout ${shortName(forkedFrom, "?")}, of which this one begins with a copy, is missing: copies keep the time of the copy, and their tokens count once more.`;
  issues.add("missing-base", null, message);
  return undefined;
}

/** Returns whether a file is a fork of another one. Files that claim to be copies of each other have no beginning. */
function isForkOf(file: RolloutFile, other: RolloutFile, library: RolloutLibrary): boolean {
  const seen = new Set<string>();
  for (let at: RolloutFile | undefined = file; at && !seen.has(at.threadId); ) {
    if (at.threadId === other.threadId) return true;
    seen.add(at.threadId);
    at = at.forkedFrom === undefined ? undefined : library.open(at.forkedFrom);
  }
  return false;
}

function* linesOf(
  file: RolloutFile,
  until: HistoryBase | undefined,
  issues: ImportIssues,
  isImported: boolean,
): Generator<LogicalLine, void> {
  const seeds = new LineSeeds(file.segment);
  let end = 0;
  for (const { bytes, offset, length, lineNumber, terminated } of scanLines(file.source.view)) {
    const { line, issue } = readSourceLine(bytes, terminated, readRolloutLine);
    if (until && isBehind(until, line, offset)) break;
    end = offset + length + 1;
    if (issue && (line || isImported)) issues.add(issue, isImported ? lineNumber : null, LINE_ISSUES[issue]);
    else if (issue)
      issues.add("bad-line", null, `A line of the rollout ${shortName(file.segment, "?")} cannot be read.`);
    if (line) yield placed(line, seeds.next(line, lineNumber), lineNumber);
  }
  if (until && end !== until.endOffset) {
    const message = `The rollout ${shortName(file.segment, "?")} does not have the length that this one records; its lines are found by their positions.`;
    issues.add("base-mismatch", null, message);
  }
}

/** Copies field by field, because spreading takes longer than all other work here. */
function placed(line: RolloutLine, seed: string, lineNumber: number): LogicalLine {
  const { type, payload, timestamp, ordinal, metadata } = line;
  return { type, payload, timestamp, ordinal, metadata, seed, lineNumber, isInherited: false };
}

/**
 * Returns whether a line is after the end of the base. Positions decide if lines have them: they stay correct when a
 * file is rewritten.
 */
function isBehind(
  { endOffset, endOrdinal }: HistoryBase,
  line: RolloutLine | undefined,
  offset: number,
): boolean {
  if (line?.ordinal !== undefined && endOrdinal !== undefined) return line.ordinal >= endOrdinal;
  return offset >= endOffset;
}

/** A line in the history of a thread, in any of its files. */
export interface LogicalLine extends RolloutLine {
  /** Name of the line, the same in every thread that has it. */
  seed: string;
  /** Line number in the imported file, from 1; null for a line of another file. */
  lineNumber: number | null;
  /** True for a line that another file wrote first: one that this file continues, or of which it has a copy. */
  isInherited: boolean;
}

/**
 * Names the lines of one file, so that ids made from the names are the same each time the file is read, even when a
 * newer version of the agent has rewritten it (times and order stay the same). A name consists of the file's id, the
 * time, the kind, and a count of lines that are equal in all of these.
 */
class LineSeeds {
  readonly #segment: string;
  #time = "";
  readonly #counts = new Map<string, number>();

  constructor(segment: string) {
    this.#segment = segment;
  }

  next(line: RolloutLine, lineNumber: number): string {
    const kind = kindOfRollout(line);
    const { timestamp } = line;
    // After a clock was set back, the same name could occur twice.
    if (timestamp === undefined || timestamp < this.#time) return `${this.#segment}#${lineNumber}`;
    if (timestamp !== this.#time) {
      this.#time = timestamp;
      this.#counts.clear();
    }
    const count = this.#counts.get(kind) ?? 0;
    this.#counts.set(kind, count + 1);
    return `${this.#segment}@${timestamp}/${kind}/${count}`;
  }
}

/** Maximum number of the original's lines that a copy may skip before a line. */
const LOOK_AHEAD = 64;

/**
 * Distinguishes the lines that a fork copied from those that it wrote itself. Copies have the time of the copying; they
 * get the name and time of their original, so that both are one entry.
 */
function* matchCopies(
  lines: Iterable<LogicalLine>,
  original: Iterable<LogicalLine>,
  originalThread: string,
): Generator<LogicalLine, void> {
  const originals = original[Symbol.iterator]();
  const ahead: { line: LogicalLine; key: string }[] = [];
  /** Returns the next line of the original with the same content; the lines before it are skipped. */
  const originalOfLine = (line: LogicalLine): LogicalLine | undefined => {
    const key = contentKey(line);
    for (let at = 0; at < LOOK_AHEAD; at++) {
      if (at === ahead.length) {
        const next = originals.next();
        if (next.done) return undefined;
        ahead.push({ line: next.value, key: contentKey(next.value) });
      }
      if (ahead[at]!.key === key) return ahead.splice(0, at + 1)[at]!.line;
    }
    return undefined;
  };
  let misses = 0;
  // The fork's own header comes before the copied lines, and belongs after them.
  let header: LogicalLine | undefined;
  let isFirst = true;
  for (const line of lines) {
    if (isFirst && line.payload["id"] !== originalThread) header = line;
    else {
      // After this number of consecutive mismatches the copy has ended.
      const match = misses > LOOK_AHEAD ? undefined : originalOfLine(line);
      misses = match ? 0 : misses + 1;
      if (!match && header) yield header;
      if (!match) header = undefined;
      yield match ? { ...line, seed: match.seed, timestamp: match.timestamp, isInherited: true } : line;
    }
    isFirst = false;
  }
  if (header) yield header;
}

/** Returns the content of a line, without fields that copying or rewriting may change. */
function contentKey(line: RolloutLine): string {
  const { payload } = line;
  const kind = kindOfRollout(line);
  const { call_id, encrypted_content, role, id } = payload;
  if (typeof call_id === "string") return `${kind} ${call_id}`;
  if (typeof encrypted_content === "string") return `${kind} ${encrypted_content}`;
  if (typeof role === "string") return `${kind} ${role} ${itemText(payload)}`;
  if (line.type === "session_meta") return `${kind} ${String(id)}`;
  return `${kind} ${JSON.stringify(payload)}`;
}
