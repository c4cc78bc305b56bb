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

/** Wraps lines between words. Words that are longer than a line stay whole; a wrapped line keeps its indent. */
export function wrapToColumns(text: string, columns: number): string {
  if (!Number.isFinite(columns)) return text;
  const wrapped = text.split("\n").map((line) => {
    if (columnsOf(line) <= columns) return line;
    const [indent] = /^ */.exec(line)!;
    const room = Math.max(NARROWEST, columns - indent.length);
    return wrapAnsi(line, room).replace(/^/gm, indent);
  });
  return wrapped.join("\n");
}

/** Title of a session that has neither a name nor a prompt. */
export const NO_PROMPT = "(no prompt yet)";

/** A session's title: its name, first prompt, file (if the header is lost), or {@link NO_PROMPT}. */
export const titleOf = ({ name, firstMessage, id, ref }: ListedSession): string =>
  plainLine(name ?? firstMessage ?? "") || (id === "" ? plainLine(basename(ref)) : NO_PROMPT);

/** Prefix for a title: `└ ` for a sub-agent, `fork of 1284c080: ` for a fork (8 characters, or `short`); else empty. */
export const markOfParent = (
  parent: ListedSession["parent"],
  short = (id: string) => id.slice(0, 8),
): string =>
  !parent ? "" : parent.kind === "subagent" ? "└ " : `fork of ${plainLine(short(parent.sessionId))}: `;

/** Returns the name of the project in whose folder a session worked. */
export const projectOf = (cwd: string): string => plainLine(projectName(cwd));
