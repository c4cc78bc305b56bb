import { stripVTControlCharacters } from "node:util";
import { graphemes, plainText } from "@espalier/session-tree";
import stringWidth from "string-width";

export { fieldText, plainLine, plainText } from "@espalier/session-tree";

/** A sequence that styles text and has no other effect. */
const STYLING = /(\u001b\[[\d;]*m)/;

/** A text that we have styled, on its way to a person's screen: of what a terminal acts on, its styles alone are left. */
export function styledText(text: string): string {
  if (!text.includes("\u001b")) return plainText(text);
  const parts = text.split(STYLING);
  return parts.map((part, at) => (at % 2 === 1 ? part : plainText(part))).join("");
}

/** At most `length` code points of it, `…` included where something is missing. */
export function cutLine(text: string, length: number): string {
  // No code point has more than two code units: what lies behind cannot matter.
  const points = Array.from(text.slice(0, (length + 1) * 2));
  return points.length <= length && points.join("").length === text.length
    ? text
    : `${points.slice(0, length - 1).join("")}…`;
}

/**
 * Characters that take one column whatever is around them: letters of Europe, punctuation, and the dots, arrows, lines,
 * blocks and shapes of which drawings are made. The library takes a hundred times as long to measure them.
 */
const ONLY_NARROW =
  /^[ -~\u00a1-\u00ac\u00ae-\u02ff\u0370-\u0377\u037a-\u037f\u0384-\u038a\u038e-\u03a1\u03a3-\u0482\u048a-\u052f\u2010-\u2027\u2030-\u205e\u20a0-\u20bf\u2100-\u218b\u2190-\u2319\u2460-\u25fc\u2600-\u2613]*$/;

/** The library takes time by the square of a text: a longer one is measured by its characters. */
const LONG = 1_000;

/** Columns of a terminal that a text takes; what styles it takes none. */
export function columnsOf(text: string): number {
  if (ONLY_NARROW.test(text)) return text.length;
  if (text.length <= LONG) return stringWidth(text);
  let columns = 0;
  for (const character of graphemes(stripVTControlCharacters(text))) columns += stringWidth(character);
  return columns;
}

/** A text of at most so many columns of a terminal, `…` included where something is missing. No more of it is measured. */
export function cutToColumns(text: string, columns: number): string {
  // No code unit takes more than two columns: most texts need not be measured.
  if (text.length * 2 <= columns) return text;
  if (ONLY_NARROW.test(text))
    return text.length <= columns ? text : `${text.slice(0, Math.max(0, columns - 1))}…`;
  let used = 0;
  let end = 0;
  let kept = 0;
  for (const character of graphemes(text)) {
    used += columnsOf(character);
    if (used > columns) return `${text.slice(0, kept)}…`;
    end += character.length;
    if (used < columns) kept = end;
  }
  return text;
}

/** The text with spaces behind it, so that it takes so many columns. */
export function padToColumns(text: string, columns: number): string {
  return text + " ".repeat(Math.max(0, columns - columnsOf(text)));
}
