import { stripVTControlCharacters } from "node:util";

/** Controls but newline and tab, and marks that turn the direction of text: a terminal acts on them instead of showing them. */
const ACTING = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;

const ACTS = new RegExp(ACTING.source);

/** Text of a session for a person's screen: what a terminal would act on is gone, lines and tabs stay. */
export function plainText(text: string): string {
  return stripVTControlCharacters(text).replace(/\r\n?/g, "\n").replace(ACTING, "").toWellFormed();
}

/** The same on one line. */
export function plainLine(text: string): string {
  return plainText(text).replace(/\s+/g, " ").trim();
}

/** What styles text and does nothing else. */
const STYLING = /(\u001b\[[\d;]*m)/;

/** A text that we have styled, on its way to a person's screen: of what a terminal acts on, its styles alone are left. */
export function styledText(text: string): string {
  if (!ACTS.test(text)) return text.toWellFormed();
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
