import { parseLine, salvageLine, scanLines } from "@espalier/jsonl-stream";
import type { ImportIssues } from "../import/issue.ts";
import {
  type HistoryBase,
  itemText,
  kindOfRollout,
  type RolloutFile,
  type RolloutLibrary,
  type RolloutLine,
  readRolloutLine,
} from "./rollout.ts";

/** Counts the lines of the file that is read, blank ones aside. */
export interface LineCount {
  lines: number;
}

/** The whole history of a file: lines of the files that it continues, from the first on, then its own lines. */
export function* logicalLines(
  file: RolloutFile,
  library: RolloutLibrary,
  issues: ImportIssues,
  count: LineCount = { lines: 0 },
): Generator<LogicalLine, void> {
  for (const { file: part, until } of [...basesOf(file, library, issues), { file, until: undefined }]) {
    const isOwn = until === undefined;
    const lines = linesOf(part, until, issues, isOwn ? count : undefined);
    const original = part.base ? undefined : originalOf(part, library, issues);
    const told = original
      ? matchCopies(lines, logicalLines(original, library, issues), original.threadId)
      : lines;
    if (isOwn) yield* told;
    else for (const line of told) yield { ...line, lineNumber: null, isInherited: true };
  }
}

/** The files before this one, the first one first, each with where it ends. */
function basesOf(file: RolloutFile, library: RolloutLibrary, issues: ImportIssues) {
  const bases: { file: RolloutFile; until: HistoryBase }[] = [];
  const seen = new Set([file.segment]);
  for (let until = file.base; until; until = bases.at(-1)!.file.base) {
    const base = seen.has(until.segment) ? undefined : library.open(until.segment);
    if (!base) {
      const message = `The rollout ${shown(until.segment)}, which this one continues, is not at hand; the rest is imported.`;
      issues.add("missing-base", null, message);
      break;
    }
    seen.add(until.segment);
    bases.push({ file: base, until });
  }
  return bases.reverse();
}

/** The thread that an old file is a copy of. */
function originalOf(
  file: RolloutFile,
  library: RolloutLibrary,
  issues: ImportIssues,
): RolloutFile | undefined {
  const { forkedFrom } = file;
  if (forkedFrom === undefined || forkedFrom === file.threadId) return undefined;
  const original = library.open(forkedFrom);
  if (original && original.source.path !== file.source.path && !isForkOf(original, file, library))
    return original;
  const message = `The rollout ${shown(forkedFrom)}, of which this one begins with a copy, is not at hand: copies keep the time of the copy, and their tokens count once more.`;
  issues.add("missing-base", null, message);
  return undefined;
}

/** Files that say they are copies of one another have no beginning. */
function isForkOf(file: RolloutFile, other: RolloutFile, library: RolloutLibrary): boolean {
  const seen = new Set<string>();
  for (let at: RolloutFile | undefined = file; at && !seen.has(at.threadId); ) {
    if (at.threadId === other.threadId) return true;
    seen.add(at.threadId);
    at = at.forkedFrom === undefined ? undefined : library.open(at.forkedFrom);
  }
  return false;
}

/** The lines of one file; `count` is given for the file that is read itself. */
function* linesOf(
  file: RolloutFile,
  until: HistoryBase | undefined,
  issues: ImportIssues,
  count: LineCount | undefined,
): Generator<LogicalLine, void> {
  const seeds = new LineSeeds(file.segment);
  let end = 0;
  for (const { bytes, offset, length, lineNumber, terminated } of scanLines(file.source.view)) {
    const parsed = parseLine(bytes);
    if (!parsed.ok && parsed.problem.kind === "blank") continue;
    if (count) count.lines++;
    const value = parsed.ok ? parsed.value : terminated ? salvageLine(bytes, '{"')?.value : undefined;
    const line = readRolloutLine(value);
    if (until && isBehind(until, line, offset)) break;
    end = offset + length + 1;
    if (line && !parsed.ok) issues.add("salvaged", count ? lineNumber : null, SALVAGED);
    if (line) yield placed(line, seeds.next(line, lineNumber), lineNumber);
    else if (!count)
      issues.add("bad-line", null, `A line of the rollout ${shown(file.segment)} cannot be read.`);
    else if (terminated || parsed.ok) issues.add("bad-line", lineNumber, BAD_LINE);
    else issues.add("torn-line", lineNumber, "The last line was cut off while it was written.");
  }
  if (until && end !== until.endOffset) {
    const message = `The rollout ${shown(file.segment)} is not as long as this one says where it continues it; the positions of the lines decide.`;
    issues.add("base-mismatch", null, message);
  }
}

/** Field by field: spreading costs more than all else here. */
function placed(line: RolloutLine, seed: string, lineNumber: number): LogicalLine {
  const { type, payload, timestamp, ordinal, metadata } = line;
  return { type, payload, timestamp, ordinal, metadata, seed, lineNumber, isInherited: false };
}

const SALVAGED = "A line was cut off; the whole line behind it was read.";
const BAD_LINE = "A line is damaged and cannot be read.";

/** Positions decide where lines have them: they stay right when a file was rewritten. */
function isBehind(
  { endOffset, endOrdinal }: HistoryBase,
  line: RolloutLine | undefined,
  offset: number,
): boolean {
  if (line?.ordinal !== undefined && endOrdinal !== undefined) return line.ordinal >= endOrdinal;
  return offset >= endOffset;
}

/** Ids come from outside: short, and printable. */
const shown = (id: string): string => id.replace(/[^\w.-]+/g, "?").slice(0, 64);

/** A line in the history of a thread, in any of its files. */
export interface LogicalLine extends RolloutLine {
  /** Names the line, the same in every thread that has it. */
  seed: string;
  /** In the file that is read, from 1; null for a line of another one. */
  lineNumber: number | null;
  /** True when another thread wrote it first. */
  isInherited: boolean;
}

/**
 * Names the lines of one file, so that ids made of the names are the same each time the file is read: also when it was
 * rewritten by a newer version of the agent, which keeps times and order. A name is the file's id, the time, the kind,
 * and a count of lines that agree in all of these.
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
    // A clock that was set back could give a name twice.
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

/** Most lines of the original that a copy may lack before a line. */
const LOOK_AHEAD = 64;

/**
 * Tells the lines that a fork copied from those it wrote itself. Copies got the time of the copying: they get back name
 * and time of their original, so that both are one entry.
 */
function* matchCopies(
  lines: Iterable<LogicalLine>,
  original: Iterable<LogicalLine>,
  originalThread: string,
): Generator<LogicalLine, void> {
  const ahead = new Ahead(original);
  let misses = 0;
  // The fork's own header comes before the copied lines, and belongs after them.
  let header: LogicalLine | undefined;
  let isFirst = true;
  for (const line of lines) {
    if (isFirst && line.payload["id"] !== originalThread) header = line;
    else {
      // When so many lines in a row are none, the copy has ended.
      const match = misses > LOOK_AHEAD ? undefined : ahead.find(line);
      misses = match ? 0 : misses + 1;
      if (!match && header) yield header;
      if (!match) header = undefined;
      yield match ? { ...line, seed: match.seed, timestamp: match.timestamp, isInherited: true } : line;
    }
    isFirst = false;
  }
  if (header) yield header;
}

/** The next lines of the original, with their content. */
class Ahead {
  readonly #lines: Iterator<LogicalLine>;
  readonly #waiting: { line: LogicalLine; key: string }[] = [];

  constructor(lines: Iterable<LogicalLine>) {
    this.#lines = lines[Symbol.iterator]();
  }

  /** Returns the next line with the same content; the lines before it are skipped. */
  find(line: LogicalLine): LogicalLine | undefined {
    const key = contentKey(line);
    for (let at = 0; at < LOOK_AHEAD; at++) {
      if (at === this.#waiting.length) {
        const next = this.#lines.next();
        if (next.done) return undefined;
        this.#waiting.push({ line: next.value, key: contentKey(next.value) });
      }
      if (this.#waiting[at]!.key === key) return this.#waiting.splice(0, at + 1)[at]!.line;
    }
    return undefined;
  }
}

/** Content of a line, without fields that copying or rewriting may change. */
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
