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
 * Characters that take one column, or two, whatever stands around them that is simple too: letters of Europe,
 * punctuation, and the dots, arrows, lines, blocks and shapes of which drawings are made; the characters of China, Japan
 * and Korea. All others may melt with their neighbours, and are left to the library, which takes a hundred times as long.
 */
const NARROW =
  " -~\u00a1-\u00ac\u00ae-\u02ff\u0370-\u0377\u037a-\u037f\u0384-\u038a\u038e-\u03a1\u03a3-\u0482\u048a-\u052f\u2010-\u2027\u2030-\u205e\u20a0-\u20bf\u2100-\u218b\u2190-\u2319\u2460-\u25fc\u2600-\u2613";
const WIDE = "\u3001-\u3029\u3041-\u3096\u309b-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uff01-\uff60";

/** Characters that are not simple, with the ones beside them that they may melt with. */
const MELTING = new RegExp(
  `[${NARROW}${WIDE}]?[^${NARROW}${WIDE}]+(?:[${NARROW}${WIDE}][^${NARROW}${WIDE}]+)*[${NARROW}${WIDE}]?`,
  "g",
);
const ONLY_NARROW = new RegExp(`^[${NARROW}]*$`);
const WIDES = new RegExp(`[${WIDE}]`, "g");

/** Columns of a terminal that a text takes; what styles it takes none. */
export function columnsOf(text: string): number {
  if (ONLY_NARROW.test(text)) return text.length;
  // A sequence that styles is more than its characters.
  const isStyled = text.includes("\u001b") || text.includes("\u009b");
  if (isStyled)
    return text.length <= LONG ? stringWidth(text) : simpleColumns(stripVTControlCharacters(text));
  return simpleColumns(text);
}

function simpleColumns(text: string): number {
  let columns = 0;
  const simple = text.replace(MELTING, (melting) => {
    columns += meltingColumns(melting);
    return "";
  });
  return columns + simple.length + (simple.match(WIDES)?.length ?? 0);
}

/** The library takes time by the square of a text: a long one is measured by its characters. */
const LONG = 1_000;

function meltingColumns(text: string): number {
  if (text.length <= LONG) return stringWidth(text);
  let columns = 0;
  for (const character of graphemes(text)) columns += stringWidth(character);
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
