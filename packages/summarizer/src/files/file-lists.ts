import { CHARS_PER_TOKEN } from "@espalier/session-tree";
import { escapeAttribute, unescapeText } from "../escape-text.ts";
import type { FileOps } from "./file-ops.ts";

/** The lists that a summary ends with, sorted. A file that was modified is not among the read ones. */
export interface FileLists {
  readFiles: string[];
  modifiedFiles: string[];
}

/** Collected operations as lists. */
export function fileLists(fileOps: FileOps): FileLists {
  const modified = new Set([...fileOps.written, ...fileOps.edited]);
  const read = [...fileOps.read].filter((path) => !modified.has(path));
  return { readFiles: read.sort(), modifiedFiles: [...modified].sort() };
}

const READ_TAG = "read-files";
const MODIFIED_TAG = "modified-files";

/**
 * The lists as blocks of a summary, a path a line, `<read-files>` before `<modified-files>`; a list without files has
 * no block. Both together take at most `limitTokens` (characters / 4): then the middle of a list gives way to a line that
 * says how many paths are left out, of the files that were only read first.
 */
export function formatFileLists(lists: FileLists, limitTokens = Number.POSITIVE_INFINITY): string {
  const limit =
    limitTokens * CHARS_PER_TOKEN - (lists.readFiles.length && lists.modifiedFiles.length ? 2 : 0);
  const wholeRead = block(READ_TAG, lists.readFiles, Number.POSITIVE_INFINITY);
  const modified = block(
    MODIFIED_TAG,
    lists.modifiedFiles,
    Math.max(limit - wholeRead.length, (limit * 3) / 4),
  );
  const read = block(READ_TAG, lists.readFiles, limit - modified.length);
  return [read, modified].filter((text) => text !== "").join("\n\n");
}

/** The lists that a summary carries; of several blocks of one kind the last one. Lines about left out paths are none. */
export function parseFileLists(summary: string): FileLists {
  return { readFiles: parseBlock(summary, READ_TAG), modifiedFiles: parseBlock(summary, MODIFIED_TAG) };
}

function block(tag: string, paths: readonly string[], limit: number): string {
  if (paths.length === 0) return "";
  const lines = paths.map(escapeAttribute);
  const room = limit - `<${tag}>\n\n</${tag}>`.length;
  const total = lines.reduce((sum, line) => sum + line.length + 1, -1);
  const shown = total <= room ? lines : middleOut(lines, room);
  return shown.length === 0 ? "" : `<${tag}>\n${shown.join("\n")}\n</${tag}>`;
}

/** The first and the last lines that fit, in turn, around a line that counts the others; nothing if not even that fits. */
function middleOut(lines: readonly string[], room: number): string[] {
  let left = room - leftOutLine(lines.length).length;
  if (left < 0) return [];
  const head: string[] = [];
  const tail: string[] = [];
  for (let taken = 0; taken < lines.length; taken++) {
    const isHead = taken % 2 === 0;
    const line = isHead ? lines[head.length]! : lines[lines.length - 1 - tail.length]!;
    left -= line.length + 1;
    if (left < 0) break;
    if (isHead) head.push(line);
    else tail.unshift(line);
  }
  return [...head, leftOutLine(lines.length - head.length - tail.length), ...tail];
}

const leftOutLine = (count: number) => `[… ${count} paths left out]`;
const LEFT_OUT = /^\[… \d+ paths left out\]$/;

function parseBlock(summary: string, tag: string): string[] {
  const start = summary.lastIndexOf(`<${tag}>`);
  const end = start < 0 ? -1 : summary.indexOf(`</${tag}>`, start);
  if (end < 0) return [];
  const lines = summary.slice(start + tag.length + 2, end).split("\n");
  return lines
    .map((line) => line.replace(/\r$/, ""))
    .filter((line) => line.trim() !== "" && !LEFT_OUT.test(line))
    .map(unescapeText);
}
