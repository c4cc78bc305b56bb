/**
 * Characters that a terminal or a page acts on instead of showing them: controls but tab and newline, marks that turn or
 * break a line of text, and those without width in which a text can hide (spaces, operators, tags). The joiners of emoji
 * and of scripts stay.
 */
const ACTING =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u180e\u200b\u200e\u200f\u2028\u2029\u202a-\u202e\u2060-\u206f\ufeff]|\udb40[\udc00-\udc7f]/g;
const ACTS = new RegExp(ACTING.source);

/**
 * Orders to a terminal: a style or a place (CSI), a text for the terminal itself (a title, a link) up to its
 * end mark on the same line, and whatever else begins with escape. None can begin within another: a text is read once.
 */
const ORDER =
  /\u001b\[[0-?]*[ -/]*[@-~]|\u009b[0-?]*[ -/]*[@-~]|\u001b[\]PX^_][^\u0007\u001b\u009c\r\n]*(?:\u0007|\u001b\\|\u009c)|\u001b[ -/]*[0-~]/g;

/** Each way in which Unicode ends a line. */
const LINE_END = /\r\n?|[\u000b\u000c\u0085\u2028\u2029]/g;

/**
 * A text from outside, to be read by a person: what a terminal or a page would act on is gone, tabs and lines stay (each
 * line end is `\n`), and a lone surrogate is U+FFFD.
 */
export function plainText(text: string): string {
  if (!ACTS.test(text)) return text.toWellFormed();
  return text.replace(ORDER, "").replace(LINE_END, "\n").replace(ACTING, "").toWellFormed();
}

/** The same on one line, without space around it. */
export function plainLine(text: string): string {
  return plainText(text).replace(/\s+/g, " ").trim();
}

/** A JSON text that shows the same value and on which nothing acts: what {@link plainText} leaves out is escaped. */
export function plainJson(json: string): string {
  return json.replace(ACTING, (character) =>
    Array.from({ length: character.length }, (_, at) => escaped(character.charCodeAt(at))).join(""),
  );
}

const escaped = (unit: number): string => `\\u${unit.toString(16).padStart(4, "0")}`;

/** The text without orders to a terminal, such as styles. */
export const withoutOrders = (text: string): string => text.replace(ORDER, "");
