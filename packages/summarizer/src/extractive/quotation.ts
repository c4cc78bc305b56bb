import { splitsPair } from "../transcript.ts";

/**
 * Foreign words in a summary. Everything that this summarizer did not say itself stands between quotation marks or in a
 * code span, on one line, so that no heading, tag or list item inside it can become part of the summary's structure.
 */

/** The words as they were said, on one line between quotation marks, at most `maximum` units with the marks. */
export function quote(text: string, maximum: number): string {
  return `"${shorten(quotable(wholeCodePoints(text, maximum * 4)), maximum - 2)}"`;
}

/** A quotation has no quotation marks inside, so that its end can be seen. */
const quotable = (text: string) => oneLine(text).replaceAll('"', "'");

/** A quotation of both ends of what was said: what is asked stands first or last. */
export function quoteEnds(text: string, maximum: number): string {
  const line = quotable(text);
  if (line.length <= maximum - 2) return `"${line}"`;
  const head = shorten(line, Math.floor((maximum - 2) * 0.6));
  const tail = line.slice(-Math.floor((maximum - 2) * 0.4)).replace(/^\S*\s/, "");
  return `"${head} ${tail.toWellFormed().replace(/^\ufffd/, "")}"`;
}

/** A code span of one line; backticks inside become apostrophes, which cannot end it. */
export function codeSpan(text: string, maximum: number): string {
  const line = oneLine(wholeCodePoints(text, maximum * 4)).replaceAll("`", "'");
  return `\`${shorten(line, maximum - 2)}\``;
}

/** The first `length` UTF-16 units, one fewer where that would cut a surrogate pair. */
export function wholeCodePoints(text: string, length: number): string {
  return text.slice(0, splitsPair(text, length) ? length - 1 : length);
}

/** Tag names that mean something around a summary; escaped wherever they stand, even glued to a word. */
const STRUCTURAL_TAGS = new Set(
  "summary goal pinned rules system user assistant human conversation transcript instructions context".split(
    " ",
  ),
);
const ESCAPE_SEQUENCE = /\u001b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\u0007\u001b]*\u0007?)/g;

/** Controls, line and paragraph separators, and marks that change the direction of what follows. */
const CONTROLS = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]+/g;

/** One line of well-formed text without controls; `<tag>` that could be taken for structure becomes `&lt;tag>`. */
export function oneLine(text: string): string {
  const line = text
    .replace(ESCAPE_SEQUENCE, "")
    .replace(CONTROLS, " ")
    .replace(/ {2,}/g, " ")
    .trim()
    .toWellFormed();
  return escapeTags(line);
}

/** Leaves generics such as `Map<string>` alone: they follow a word, and their names mean nothing here. */
function escapeTags(text: string): string {
  return text.replace(
    /<(\/?)(?=([A-Za-z][\w:-]*)[\s/>])/g,
    (tag, slash: string, name: string, offset: number) => {
      const afterWord = offset > 0 && /\w/.test(text[offset - 1]!);
      const isPlainGeneric =
        afterWord && slash === "" && !/[-_]/.test(name) && !STRUCTURAL_TAGS.has(name.toLowerCase());
      return isPlainGeneric ? tag : `&lt;${slash}`;
    },
  );
}

/**
 * At most `maximum` UTF-16 units: cut after a sentence where one ends in the second half, else after a word, else
 * between two code points. What was cut ends in an ellipsis.
 */
export function shorten(text: string, maximum: number): string {
  if (text.length <= maximum) return text;
  if (maximum <= 2) return "";
  const room = wholeCodePoints(text, maximum - 2);
  let end = -1;
  for (const match of room.matchAll(/[.!?](?=\s)|[。！？]/g)) end = match.index + 1;
  if (end < maximum / 2) end = room.search(/\s\S*$/);
  const cut = (end >= maximum / 2 ? room.slice(0, end) : room).trimEnd();
  return `${closeCodeSpan(cut)}…`;
}

/** A cut inside a code span leaves it open, which would take in what follows. */
function closeCodeSpan(text: string): string {
  return (text.match(/`/g)?.length ?? 0) % 2 === 1 ? `${text}\`` : text;
}

/** Letters of a sentence without case, marks and spaces, to see whether two say the same. */
export function sameness(text: string): string {
  return text
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]+/gu, " ")
    .trim();
}
