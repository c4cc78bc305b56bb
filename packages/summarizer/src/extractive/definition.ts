/**
 * Lines that define something, in the languages most code is written in, also where a tool put a path or a line number
 * before them. What a file defines is what others, and later edits, name it by.
 */
const PLACE = String.raw`^(?:[^\s:]{1,160}:)?(?:[ \t]{0,6}\d{1,6}(?:→|[:|\t])[ \t]?)?`;
const MODIFIERS = String.raw`(?:(?:export|default|declare|public|private|protected|internal|static|async|abstract|final|override|readonly|unsafe|inline|pub(?:\([a-z]{1,10}\))?)[ \t]+)*`;
const NAME = String.raw`([A-Za-z_$][\w$]{3,60})`;
const KEYWORDS =
  "class|interface|type|enum|struct|trait|protocol|function\\*?|func(?:[ \\t]*\\([^()\\n]{0,60}\\))?|fn|def|defp?|module|namespace|record|object|create table|CREATE TABLE";

const DEFINITIONS = [
  new RegExp(`${PLACE}[ \\t]{0,12}${MODIFIERS}(?:${KEYWORDS})[ \\t]+${NAME}`, "gm"),
  new RegExp(`${PLACE}(?:export[ \\t]+)?(?:const|let|var|val)[ \\t]+${NAME}`, "gm"),
  new RegExp(
    `${PLACE}[ \\t]{1,4}${MODIFIERS}(?:[gs]et[ \\t]+)?${NAME}\\([^\\n;{}]{0,200}\\)[^\\n;{}=]{0,80}\\{[ \\t]*$`,
    "gm",
  ),
  new RegExp(`${PLACE}([A-Z][A-Z0-9_]{4,60})[ \\t]*[:=]`, "gm"),
];

/** Calls `found` with each name that a text defines. */
export function eachDefinition(text: string, found: (name: string) => void): void {
  for (const definition of DEFINITIONS) {
    for (const match of text.matchAll(definition)) found(match[1]!);
  }
}
