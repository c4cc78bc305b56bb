/**
 * Characters that a terminal or a page interprets instead of showing: controls except tab and newline, characters that
 * reverse or break a line of text, and characters without width that can hide text (spaces, operators, tags). The
 * joiners of emoji and of scripts are not included.
 */
const ACTING =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u180e\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060-\u206f\ufeff]|\udb40[\udc00-\udc7f]/g;
const ACTS = new RegExp(ACTING.source);

/**
 * Escape sequences of a terminal: a style or a cursor position (CSI), a text for the terminal itself (a title, a link)
 * up to its end on the same line, and all other sequences that begin with escape. Sequences do not nest, so one pass is
 * enough.
 */
const ORDER =
  /\u001b\[[0-?]*[ -/]*[@-~]|\u009b[0-?]*[ -/]*[@-~]|\u001b[\]PX^_][^\u0007\u001b\u009c\r\n]*(?:\u0007|\u001b\\|\u009c)|\u001b[ -/]*[0-~]/g;

/** All line ends of Unicode. */
const LINE_END = /\r\n?|[\u000b\u000c\u0085\u2028\u2029]/g;

/**
 * Returns a text from outside in a form that is safe to show. Removes the characters and sequences that a terminal or a
 * page interprets. Keeps tabs and lines; each line end becomes `\n`, and a lone surrogate becomes U+FFFD.
 */
export function plainText(text: string): string {
  if (!ACTS.test(text)) return text.toWellFormed();
  return text.replace(ORDER, "").replace(LINE_END, "\n").replace(ACTING, "").toWellFormed();
}

/** Returns {@link plainText} on one line, without space around it. */
export function plainLine(text: string): string {
  return plainText(text).replace(/\s+/g, " ").trim();
}

/** Returns a JSON text with the same value that is safe to show: characters that {@link plainText} removes are escaped. */
export function plainJson(json: string): string {
  return json.replace(ACTING, (character) =>
    Array.from({ length: character.length }, (_, at) => escaped(character.charCodeAt(at))).join(""),
  );
}

const escaped = (unit: number): string => `\\u${unit.toString(16).padStart(4, "0")}`;

/** Returns the text without escape sequences of a terminal, such as styles. */
export const withoutOrders = (text: string): string => text.replace(ORDER, "");
