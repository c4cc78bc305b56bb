import { parseLine, salvageLine, scanLines } from "@espalier/jsonl-stream";
import type { ImportIssues } from "../import-issue.ts";
import { LineSeeds } from "./line-seeds.ts";
import type { LogicalLine } from "./logical-line.ts";
import { matchCopies } from "./match-copies.ts";
import type { HistoryBase, RolloutFile } from "./rollout-file.ts";
import type { RolloutLibrary } from "./rollout-library.ts";
import { type RolloutLine, readRolloutLine } from "./rollout-line.ts";

/** Counts the lines of the file that is read, blank ones aside. */
export interface LineCount {
  lines: number;
}

/** The whole history of a file: what stands in the files that it continues, from the first on, then its own lines. */
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
    else issues.add("torn-line", lineNumber, "The last line was cut while it was written.");
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

const SALVAGED = "A whole line stood behind one that was cut; it counts.";
const BAD_LINE = "The line cannot be read: it is no line of a rollout.";

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
