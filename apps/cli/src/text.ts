import { basename } from "node:path";
import type { ListedSession } from "@espalier/engine";
import { otherAgents } from "@espalier/interop";
import {
  columnsOf,
  cutToColumns,
  graphemes,
  plainLine,
  plainText,
  projectName,
} from "@espalier/session-tree";
import wrapAnsi from "wrap-ansi";

export { columnsOf, cutLine, cutToColumns, fieldText, plainLine, plainText } from "@espalier/session-tree";

/** Matches a sequence that only styles text. */
const STYLING = /(\u001b\[[\d;]*m)/;

/** Cleans a text that we have styled for a terminal: of its control sequences only the styles are kept. */
export function styledText(text: string): string {
  if (!text.includes("\u001b")) return plainText(text);
  const parts = text.split(STYLING);
  return parts.map((part, at) => (at % 2 === 1 ? part : plainText(part))).join("");
}

/**
 * Cuts a text to a number of columns around the first match of the query, in upper or lower case. If the match is
 * beyond these columns, the result begins with `…` and up to a third of the columns of text before the match.
 */
export function aroundMatch(text: string, query: string, columns: number): string {
  const at = text.toLowerCase().indexOf(query.toLowerCase());
  if (at < 0 || columnsOf(text.slice(0, at + query.length)) < columns) return cutToColumns(text, columns);
  let from = at;
  let room = Math.floor(columns / 3);
  for (const character of [...graphemes(text.slice(0, at))].reverse()) {
    room -= columnsOf(character);
    if (room < 0) break;
    from -= character.length;
  }
  return cutToColumns(`…${text.slice(from)}`, columns);
}

/** Appends spaces to a text until it has this width in columns. */
export function padToColumns(text: string, columns: number): string {
  return text + " ".repeat(Math.max(0, columns - columnsOf(text)));
}

/** Returns the length of the beginning that both texts have in common. */
export function equalStart(one: string, other = ""): number {
  let at = 0;
  while (at < one.length && one[at] === other[at]) at++;
  return at;
}

/** Joins words as in a sentence: `a, b or c`. */
export const phrase = (words: readonly string[], last: "and" | "or"): string =>
  words.join(", ").replace(/, ([^,]*)$/, ` ${last} $1`);

const titlesOf = (isConverted: boolean): string =>
  phrase(
    otherAgents.filter((other) => other.isConverted === isConverted).map(({ title }) => title),
    "and",
  );

/** Titles of the agents whose sessions are imported: `Claude Code and Codex`. */
export const IMPORTED_AGENTS = titlesOf(true);
/** Titles of the agents whose sessions are opened where they are: `Pi`. */
export const AGENTS_IN_PLACE = titlesOf(false);

/** Minimum number of columns in which a line is wrapped. */
const NARROWEST = 20;

/** Wraps the lines of a text as {@link wrapWords} does, in at least 20 columns. */
export const wrapToColumns = (text: string, columns: number): string =>
  text
    .split("\n")
    .flatMap((line) => wrapWords(line, columns, NARROWEST))
    .join("\n");

/**
 * Wraps a line only between words, so that an address or a path can still be copied. A wrapped line keeps its indent, and
 * has at least `least` columns beside it.
 */
export function wrapWords(line: string, columns: number, least = 1): string[] {
  if (columnsOf(line) <= columns) return [line];
  const spaces = /^ */.exec(line)![0];
  const room = Math.max(least, columns - spaces.length);
  return wrapAnsi(shortWords(line.slice(spaces.length)), room)
    .split("\n")
    .map((part) => spaces + part);
}

/** Breaks very long words between two characters, so that the library can wrap the text. */
export const shortWords = (text: string): string => text.replace(LONG_WORDS, shortWord);

/** Maximum length of a word in code units. The library breaks a longer non-ASCII word in quadratic time. */
const LONGEST_WORD = 1_000;
const LONG_WORDS = new RegExp(`\\S{${LONGEST_WORD + 1},}`, "g");
const ASCII = /^[\0-\x7f]*$/;

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

/** Title of a session that has neither a name nor a prompt. */
export const NO_PROMPT = "(no prompt yet)";

/** A session's title: its name, first prompt, file (if the header is lost), or {@link NO_PROMPT}. */
export const titleOf = ({ name, firstMessage, id, ref }: ListedSession): string =>
  plainLine(name ?? firstMessage ?? "") || (id === "" ? plainLine(basename(ref)) : NO_PROMPT);

/** Returns the name of the project in whose folder a session worked. */
export const projectOf = (cwd: string): string => plainLine(projectName(cwd));
