import { isRecord } from "@espalier/session-tree";
import { diffLines } from "diff";

/** A line of a file, as a change left it. */
export interface ChangedLine {
  sign: "+" | "-" | " ";
  text: string;
}

/** A change of a file that a call asked for. */
export interface FileChange {
  path: string;
  /** Parts of the file, in order; lines that stayed are told around each change. */
  parts: ChangedLine[][];
}

/** Names by which tools call what they replace and what they put there. */
const PAIRS = [
  ["oldText", "newText"],
  ["old_string", "new_string"],
  ["old_str", "new_str"],
  ["old", "new"],
] as const;

/** Longer texts are not compared line by line. */
const LONGEST = 40_000;

/** Nor are texts of which more lines have changed: finding what stayed takes time by the square of that. */
const MOST_CHANGED = 500;

/** The change that a call asks for, whatever the tool is called; undefined when its arguments tell of none. */
export function fileChangeIn(given: unknown): FileChange | undefined {
  if (!isRecord(given)) return undefined;
  const path = [given["path"], given["file_path"], given["filePath"], given["filename"]].find(isText);
  if (path === undefined) return undefined;
  const edits = Array.isArray(given["edits"]) ? given["edits"] : [given];
  const parts = edits.flatMap((edit) => {
    const texts = isRecord(edit) ? pairIn(edit) : undefined;
    return texts ? [comparedLines(texts[0], texts[1])] : [];
  });
  return parts.length > 0 ? { path, parts } : undefined;
}

/** A patch, as tools record it: its own lines, by their first character. */
export function patchLines(patch: string): ChangedLine[] {
  return patch.split("\n").map((line) => {
    const sign = line[0] === "+" || line[0] === "-" ? line[0] : " ";
    return { sign, text: sign === " " && line[0] !== " " ? line : line.slice(1) };
  });
}

function pairIn(edit: Readonly<Record<string, unknown>>): [string, string] | undefined {
  for (const [before, after] of PAIRS) {
    const [old, fresh] = [edit[before], edit[after]];
    if (isText(old) && isText(fresh)) return [old, fresh];
  }
  return undefined;
}

function comparedLines(before: string, after: string): ChangedLine[] {
  const isShort = before.length + after.length <= LONGEST;
  const compared = isShort ? diffLines(before, after, { maxEditLength: MOST_CHANGED }) : undefined;
  if (!compared) return [...signed("-", before), ...signed("+", after)];
  return compared.flatMap(({ value, added, removed }) => signed(added ? "+" : removed ? "-" : " ", value));
}

const signed = (sign: ChangedLine["sign"], text: string): ChangedLine[] =>
  text
    .replace(/\n$/, "")
    .split("\n")
    .map((line) => ({ sign, text: line }));

const isText = (value: unknown): value is string => typeof value === "string";
