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
