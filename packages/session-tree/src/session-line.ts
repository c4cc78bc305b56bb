import {
  isSpace,
  type LineProblem,
  parseLine,
  salvageLine,
  skipSpace,
  skipValue,
} from "@espalier/jsonl-stream";
import type { Entry } from "./entry.ts";
import { hasMark } from "./glue-marks.ts";
import { parseHeader, type SessionHeader } from "./session-header.ts";

/**
 * What a line of a log turned out to be, or one of several things that stand on it. Every line that is not blank is
 * exactly one of the other three, or several of them.
 */
export type SessionLine =
  | { is: "blank"; from: number }
  | { is: "header"; header: SessionHeader; from: number }
  /** `from` is where it begins within the line, here as in the others: not 0 when something stands before it. */
  | { is: "entry"; entry: Entry; from: number }
  /** `message` is a sentence without its full stop: what is lost is said behind it. */
  | { is: "corrupt"; message: string; from: number };

/**
 * Parses and judges one line: the last thing that stands on it, where there are several (see {@link readLineParts}). Its
 * bytes are the line without the newline.
 */
export function readSessionLine(bytes: Uint8Array): SessionLine {
  const parsed = parseLine(bytes);
  return parsed.ok ? judge(parsed.value, 0) : takeApart(bytes, parsed.problem).at(-1)!;
}

/**
 * Parses and judges all that stands on a line, in its order: nearly always one thing, and never none. Where newlines were
 * lost there are several, one up to the next: whole entries at the line's end, a header or
 * entries at its beginning, and between them what is no whole one.
 */
export function readLineParts(bytes: Uint8Array): SessionLine[] {
  const parsed = parseLine(bytes);
  return parsed.ok ? [judge(parsed.value, 0)] : takeApart(bytes, parsed.problem);
}

/** The parts of a line that is not one value. Linear in its length: each is parsed once, from the end while it lasts. */
function takeApart(bytes: Uint8Array, problem: LineProblem): SessionLine[] {
  if (problem.kind === "blank") return [{ is: "blank", from: 0 }];
  const last: SessionLine[] = [];
  let end = bytes.length;
  for (let found = entryAtEnd(bytes); found; found = entryAtEnd(bytes.subarray(0, end))) {
    last.push(found);
    end = found.from;
  }
  if (last.length === 0) return [{ is: "corrupt", message: problem.message.replace(/\.$/, ""), from: 0 }];
  last.reverse();
  const first = partsAtBeginning(bytes.subarray(0, end));
  // Space before the first one is a part of it, as on any line.
  if (first.length === 0) last[0]!.from = 0;
  return [...first, ...last];
}

/** The entry that ends a line, behind others or behind a torn one. */
function entryAtEnd(bytes: Uint8Array): SessionLine | undefined {
  const found = salvageLine(bytes, "{");
  return found && entryBehind(found.value, bytes, found.start, bytes.length);
}

/** A value that stands behind others, if it is an entry that is found there without parsing, so that all readers see the same ones. */
function entryBehind(
  value: unknown,
  bytes: Uint8Array,
  from: number,
  end: number,
): Extract<SessionLine, { is: "entry" }> | undefined {
  const line = judge(value, from);
  const isOne = line.is === "entry" && Object.hasOwn(value as object, "parentId");
  return isOne && hasMark(bytes.subarray(from, end)) ? line : undefined;
}

/** Whole ones from the beginning of a line on, and what is left of it. */
function partsAtBeginning(bytes: Uint8Array): SessionLine[] {
  const parts: SessionLine[] = [];
  let at = 0;
  for (let end = endOfObject(bytes, 0); end >= 0; end = endOfObject(bytes, at)) {
    const parsed = parseLine(bytes.subarray(at, end));
    if (!parsed.ok) break;
    const from = skipSpace(bytes, at, end);
    const line = at === 0 ? judge(parsed.value, 0) : entryBehind(parsed.value, bytes, from, end);
    if (!line || line.is === "corrupt") break;
    parts.push(line);
    at = end;
  }
  if (bytes.subarray(at).every(isSpace)) return parts;
  const message = `${bytes.length - at} bytes of a line that was cut stand before another entry`;
  return [...parts, { is: "corrupt", message, from: at }];
}

/** Where the JSON object ends that begins at `at`, behind space; -1 for none. */
function endOfObject(bytes: Uint8Array, at: number): number {
  const start = skipSpace(bytes, at, bytes.length);
  return bytes[start] === OPEN_BRACE ? skipValue(bytes, start, bytes.length) : -1;
}

const OPEN_BRACE = 123;

function judge(value: unknown, from: number): SessionLine {
  const header = parseHeader(value);
  if (header) return { is: "header", header, from };
  const problem = shapeProblem(value);
  return problem
    ? { is: "corrupt", message: problem, from }
    : { is: "entry", entry: normalize(value as Entry), from };
}

/** What keeps a parsed value from being an entry at all; what a known kind lacks is for `problem` of the kind. */
function shapeProblem(value: unknown): string | undefined {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    return "The line is not a JSON object";
  const { id, type, parentId } = value as Partial<Entry>;
  if (typeof type !== "string") return "The line has no `type`";
  if (typeof id !== "string" || id === "") return "The line has no `id`";
  if (parentId !== undefined && parentId !== null && typeof parentId !== "string")
    return "The `parentId` is neither an id nor null";
  return undefined;
}

/** A missing parent is that of a root, and a time that is no text is none. */
function normalize(entry: Entry): Entry {
  const { parentId, timestamp } = entry as Partial<Entry>;
  if (parentId !== undefined && typeof timestamp === "string") return entry;
  return { ...entry, parentId: parentId ?? null, timestamp: typeof timestamp === "string" ? timestamp : "" };
}
