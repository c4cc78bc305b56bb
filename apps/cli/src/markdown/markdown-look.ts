import wrapAnsi from "wrap-ansi";
import type { Colours } from "../shell.ts";
import { columnsOf } from "../text-columns.ts";

/** How markdown is laid out. */
export interface MarkdownLook {
  /** Columns there is room for. */
  columns: number;
  /** Where they colour nothing, the marks of markdown stay. */
  colours: Colours;
}

/** The lines of a styled text, broken between words where there are some. */
export function wrapped(text: string, columns: number): string[] {
  return wrapAnsi(text, Math.max(1, columns), { hard: true })
    .split("\n")
    .map((line) => line.trimEnd());
}

/** A line that is too long, broken between words alone: an address or a path stays one that can be copied. */
export function brokenBetweenWords(line: string, columns: number): string[] {
  if (columnsOf(line) <= columns) return [line];
  const indent = /^ */.exec(line)![0];
  const room = Math.max(1, columns - indent.length);
  return wrapAnsi(line.slice(indent.length), room)
    .split("\n")
    .map((part) => indent + part);
}

/** The lines of code, broken wherever they are too long: its spaces mean something. */
export function wrappedCode(text: string, columns: number): string[] {
  return wrapAnsi(text.replaceAll("\t", "  "), Math.max(1, columns), {
    hard: true,
    trim: false,
    wordWrap: false,
  }).split("\n");
}
