import { formatLine, JsonlError } from "@espalier/jsonl-stream";
import type { Entry } from "@espalier/session-tree";

/** What is deeper is written as text: a line is at most 256 deep, and what is copied stands inside an entry. */
const DEEPEST = 200;

const NO_LIMIT = { bytes: Number.POSITIVE_INFINITY };

/**
 * The line of an entry. What JSON can say and a session cannot hold is made tame; `tamed` is told of it.
 *
 * Entries of an importer come out of parsed lines, so most can be written at once; `formatLine` is asked only about what
 * could need its care, which costs as much as writing.
 */
export function lineOf(entry: Entry, tamed: () => void): string {
  if (isShallow(entry, DEEPEST)) {
    const text = JSON.stringify(entry);
    if (!text.includes("\\ud") && !text.includes("__proto__")) return text;
  }
  try {
    return formatLine(entry, NO_LIMIT);
  } catch (error) {
    // Nested beyond what can be written, or with a key that naive readers stumble over.
    if (!(error instanceof JsonlError) && !(error instanceof RangeError)) throw error;
    tamed();
    return formatLine(tame(entry, 0), NO_LIMIT);
  }
}

/** Whether nothing is nested deeper; the depth itself bounds the recursion. */
function isShallow(value: object, deepest: number): boolean {
  if (deepest === 0) return false;
  for (const key in value) {
    const item: unknown = (value as Record<string, unknown>)[key];
    if (typeof item === "object" && item !== null && !isShallow(item, deepest - 1)) return false;
  }
  return true;
}

function tame(value: unknown, depth: number): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (depth > DEEPEST) return textOf(value);
  if (Array.isArray(value)) return value.map((item) => tame(item, depth + 1));
  const fields = Object.entries(value).map(([key, item]): [string, unknown] => [
    key === "__proto__" ? "[__proto__]" : key,
    tame(item, depth + 1),
  ]);
  return Object.fromEntries(fields);
}

function textOf(value: object): string {
  try {
    return JSON.stringify(value);
  } catch {
    return "[nested too deeply to be kept]"; // deeper than the call stack; the report says so
  }
}
