import { graphemes } from "@espalier/session-tree";
import type { Token } from "markdown-it";
import wrapAnsi from "wrap-ansi";
import type { Colours } from "../shell.ts";
import { columnsOf } from "../text-columns.ts";

/** A block, and the blocks that stand in it. */
export interface MarkdownBlock {
  token: Token;
  blocks: MarkdownBlock[];
}

/** How markdown is laid out. */
export interface MarkdownLook {
  /** Columns there is room for. */
  columns: number;
  /** Where they colour nothing, the marks of markdown stay. */
  colours: Colours;
}

/** The lines of a styled text, broken between words where there are some. */
export function wrapped(text: string, columns: number): string[] {
  return wrapAnsi(shortWords(text), Math.max(1, columns), { hard: true })
    .split("\n")
    .map((line) => line.trimEnd());
}

/** A line that is too long, broken between words alone: an address or a path stays one that can be copied. */
export function brokenBetweenWords(line: string, columns: number): string[] {
  if (columnsOf(line) <= columns) return [line];
  const indent = /^ */.exec(line)![0];
  const room = Math.max(1, columns - indent.length);
  return wrapAnsi(shortWords(line.slice(indent.length)), room)
    .split("\n")
    .map((part) => indent + part);
}

/** The lines of code, broken wherever they are too long: its spaces mean something. */
export function wrappedCode(text: string, columns: number): string[] {
  return wrapAnsi(shortWords(text.replaceAll("\t", "  ")), Math.max(1, columns), {
    hard: true,
    trim: false,
    wordWrap: false,
  }).split("\n");
}

/** Code units of a word that the library breaks, which takes time by the square of it where it is no ASCII. */
const LONGEST_WORD = 1_000;
const LONG_WORDS = new RegExp(`\\S{${LONGEST_WORD + 1},}`, "g");
const ASCII = /^[\0-\x7f]*$/;

/** A text that the library can break: words that are too long for it are broken between two characters. */
const shortWords = (text: string): string => text.replace(LONG_WORDS, shortWord);

function shortWord(word: string): string {
  if (ASCII.test(word)) return word;
  let broken = "";
  let length = 0;
  for (const character of graphemes(word)) {
    length += character.length;
    if (length > LONGEST_WORD) {
      broken += "\n";
      length = character.length;
    }
    broken += character;
  }
  return broken;
}
