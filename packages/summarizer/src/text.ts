/** Where a cut text keeps its characters: at the beginning, or half at each end. */
export type CutShape = "head" | "head-tail";

/** A text within a limit, and how many of its characters were left out (0 when it stands whole). */
export interface Cut {
  text: string;
  /** Characters (UTF-16 code units). */
  leftOut: number;
}

/** What stands in place of text that was left out. */
export const cutMark = (characters: number): string => `[… ${characters} characters left out]`;

/**
 * Keeps at most `limit` characters (UTF-16 code units) of a text and says in it how many were left out; the mark comes
 * on top of the limit. A code point is never split: a pair at the cut is left out whole.
 */
export function cut(text: string, limit: number, shape: CutShape = "head"): Cut {
  const room = Math.max(0, Math.floor(limit));
  if (text.length <= room) return { text, leftOut: 0 };
  const headRoom = shape === "head" ? room : Math.ceil(room / 2);
  const head = text.slice(0, splitsPair(text, headRoom) ? headRoom - 1 : headRoom);
  const tailStart = text.length - (room - headRoom);
  const tail = text.slice(splitsPair(text, tailStart) ? tailStart + 1 : tailStart);
  const leftOut = text.length - head.length - tail.length;
  const lines = [head, cutMark(leftOut), tail].filter((line) => line !== "");
  return { text: lines.join("\n"), leftOut };
}

/** {@link cut} without the count. */
export function cutText(text: string, limit: number, shape: CutShape = "head"): string {
  return cut(text, limit, shape).text;
}

/**
 * The escape of everything that is handed to a model between tags.
 *
 * Every `<` becomes `&lt;`, so no content can open or close a tag. An `&` becomes `&amp;` only where the text would
 * otherwise read as one of these escapes; `a && b` and `R&D` stay as they are, which matters because models copy
 * commands and code out of a transcript. Both together are reversible: {@link unescapeText} gives back every text.
 * In attributes and lists of lines `>`, `"`, newline and carriage return are escaped too. Lone surrogates are healed to
 * U+FFFD, in both.
 */
const NAMES: Record<string, string> = {
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "\n": "&#10;",
  "\r": "&#13;",
};
const CHARACTERS: Record<string, string> = { lt: "<", gt: ">", quot: '"', "#10": "\n", "#13": "\r" };

/** An `&` that begins something which reads as an escape, however often it was escaped before. */
const READS_AS_ESCAPE = "&(?=(?:amp;)*(?:lt|gt|quot|#10|#13);)";
const IN_TEXT = new RegExp(`<|${READS_AS_ESCAPE}`, "g");
const IN_ATTRIBUTE = new RegExp(`[<>"\\n\\r]|${READS_AS_ESCAPE}`, "g");
const ESCAPED = /&(amp;)?((?:amp;)*)(lt|gt|quot|#10|#13);/g;

/** Text between tags. */
export function escapeText(text: string): string {
  return text.toWellFormed().replace(IN_TEXT, (found) => NAMES[found] ?? "&amp;");
}

/** The value of an attribute (between double quotes), or one line of a list. */
export function escapeAttribute(text: string): string {
  return text.toWellFormed().replace(IN_ATTRIBUTE, (found) => NAMES[found] ?? "&amp;");
}

/** The text that was escaped, by either function. */
export function unescapeText(escaped: string): string {
  return escaped.replace(ESCAPED, (_, once: string | undefined, more: string, name: string) =>
    once === undefined ? (CHARACTERS[name] ?? "") : `&${more}${name};`,
  );
}

export const isHighSurrogate = (unit: number): boolean => unit >= 0xd800 && unit <= 0xdbff;
export const isLowSurrogate = (unit: number): boolean => unit >= 0xdc00 && unit <= 0xdfff;

/** True when a cut before `index` would separate the two halves of a code point. */
export function splitsPair(text: string, index: number): boolean {
  if (index <= 0 || index >= text.length) return false;
  return isHighSurrogate(text.charCodeAt(index - 1)) && isLowSurrogate(text.charCodeAt(index));
}
