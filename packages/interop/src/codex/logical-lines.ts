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
 * Yields the whole history of a file: first the lines of the files that it continues, then its own lines.
 *
 * @param isImported false for a file that is only read for another one: issues name the file, and no line
 * @param reading files that are being read: files that continue or copy each other in a circle have no beginning
 */
export function* logicalLines(
  file: RolloutFile,
  library: RolloutLibrary,
  issues = new ImportIssues(),
  isImported = true,
  reading: ReadonlySet<string> = new Set(),
): Generator<LogicalLine, void> {
  const seen = new Set([...reading, file.segment]);
  const openOther = (id: string, problem: string | undefined): RolloutFile | undefined => {
    const other = seen.has(id) ? undefined : library.open(id);
    seen.add(id);
    if (!other && problem) issues.add("missing-base", null, `The rollout ${shortName(id, "?")}, ${problem}`);
    return other;
  };
  /** Files of the history, the newest first, each with its end. */
  const parts: { part: RolloutFile; until: HistoryBase | undefined }[] = [{ part: file, until: undefined }];
  for (let until = file.base; until; until = parts.at(-1)!.part.base) {
    const part = openOther(until.segment, "which this one continues, is missing; the rest is imported.");
    if (!part) break;
    parts.push({ part, until });
  }
  for (const { part, until } of parts.reverse()) {
    const lines = ownLines(part, until, issues, isImported && part === file);
    const { base, forkedFrom, origin } = part;
    const problem = origin ? undefined : NO_ORIGINAL;
    const original = base || forkedFrom === undefined ? undefined : openOther(forkedFrom, problem);
    if (original) {
      const originals = logicalLines(original, library, issues, false, seen);
      yield* matchCopies(lines, originals, original.threadId);
    } else yield* lines;
  }
}

const NO_ORIGINAL =
  "of which this one begins with a copy, is missing: copies keep the time of the copy, and their tokens count once more.";

function* ownLines(
  file: RolloutFile,
  until: HistoryBase | undefined,
  issues: ImportIssues,
  isImported: boolean,
): Generator<LogicalLine, void> {
  const name = shortName(file.segment, "?");
  const seeds = new LineSeeds(file.segment);
  let end = 0;
  for (const { bytes, offset, length, lineNumber, terminated } of scanLines(file.source.view)) {
    const { line, issue } = readSourceLine(bytes, terminated, readRolloutLine);
    if (until && isBehind(line, offset, until)) break;
    end = offset + length + 1;
    const number = isImported ? lineNumber : null;
    if (issue && (line || isImported)) issues.add(issue, number, LINE_ISSUES[issue]);
    else if (issue) issues.add("bad-line", null, `A line of the rollout ${name} cannot be read.`);
    if (!line) continue;
    const { type, payload, timestamp, ordinal, metadata } = line;
    const seed = seeds.next(line, lineNumber);
    // Field by field, because spreading takes longer than all other work here.
    yield { type, payload, timestamp, ordinal, metadata, seed, lineNumber: number, isInherited: !isImported };
  }
  if (until && end !== until.endOffset) {
    const message = `The rollout ${name} does not have the length that this one records; its lines are found by their positions.`;
    issues.add("base-mismatch", null, message);
  }
}

/**
 * Returns whether a line is after the end of the base. Positions decide if lines have them: they stay correct when a
 * file is rewritten.
 */
function isBehind(
  line: RolloutLine | undefined,
  offset: number,
  { endOffset, endOrdinal }: HistoryBase,
): boolean {
  if (line?.ordinal !== undefined && endOrdinal !== undefined) return line.ordinal >= endOrdinal;
  return offset >= endOffset;
}

/**
 * Names the lines of one file, so that ids made from the names are the same each time the file is read, even when a
 * newer version of the agent has rewritten it (times and order stay the same). A name consists of the file's id, the
 * time, the kind, and a count of lines that are equal in all of these.
 */
class LineSeeds {
  readonly #segment: string;
  #time = "";
  /** Number of lines of each kind at the time. */
  readonly #counts = new Map<string, number>();

  constructor(segment: string) {
    this.#segment = segment;
  }

  next(line: RolloutLine, lineNumber: number): string {
    const { timestamp } = line;
    // After a clock was set back, the same name could occur twice.
    if (timestamp === undefined || timestamp < this.#time) return `${this.#segment}#${lineNumber}`;
    if (timestamp > this.#time) this.#counts.clear();
    this.#time = timestamp;
    const kind = kindOfRollout(line);
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
  own: Iterable<LogicalLine>,
  original: Iterator<LogicalLine>,
  originalThread: string,
): Generator<LogicalLine, void> {
  /** Lines of the original that no copy was found for yet, each with its content. */
  const ahead: { line: LogicalLine; key: string }[] = [];
  const originalOf = (key: string): LogicalLine | undefined => {
    for (let at = 0; at < LOOK_AHEAD; at++) {
      if (at === ahead.length) {
        const { value: line, done } = original.next();
        if (done) return undefined;
        ahead.push({ line, key: contentKey(line) });
      }
      if (ahead[at]!.key === key) return ahead.splice(0, at + 1).at(-1)!.line;
    }
    return undefined;
  };
  let misses = 0;
  // The fork's own header comes before the copied lines, and belongs after them.
  let header: LogicalLine | undefined;
  let isFirst = true;
  for (const line of own) {
    if (isFirst && line.payload["id"] !== originalThread) header = line;
    else {
      // After this number of consecutive mismatches the copy has ended.
      const match = misses > LOOK_AHEAD ? undefined : originalOf(contentKey(line));
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
  const { call_id, encrypted_content, role, id } = payload;
  const kind = kindOfRollout(line);
  if (typeof call_id === "string") return `${kind} ${call_id}`;
  if (typeof encrypted_content === "string") return `${kind} ${encrypted_content}`;
  if (typeof role === "string") return `${kind} ${role} ${itemText(payload)}`;
  if (line.type === "session_meta") return `${kind} ${String(id)}`;
  return `${kind} ${JSON.stringify(payload)}`;
}
