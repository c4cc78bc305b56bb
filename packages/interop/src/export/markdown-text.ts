import { fieldText, plainLine, plainText } from "@espalier/session-tree";

/**
 * Text as a quotation. What was said is markdown more often than not, and may hold headings, rules or a fence that nobody
 * closed; inside a quotation it cannot end or imitate the document around it.
 */
export function quoted(text: string): string {
  return plainText(text)
    .trimEnd()
    .split("\n")
    .map((line) => (line === "" ? ">" : `> ${line}`))
    .join("\n");
}

/** Text as it is, in a fence that is longer than any in it. */
export function fenced(text: string, language = ""): string {
  const lines = plainText(text).trimEnd();
  const longest = Math.max(2, ...Array.from(lines.matchAll(/`+/g), ([ticks]) => ticks.length));
  const fence = "`".repeat(longest + 1);
  return `${fence}${language}\n${lines}\n${fence}`;
}

/** A short text within a line, as code. */
export function inline(text: unknown): string {
  const line = plainLine(fieldText(text)).replaceAll("`", "'");
  return line === "" ? "`?`" : `\`${line}\``;
}

/** A short text within a heading: one line, nothing in it means anything. */
export function headingText(text: string): string {
  return plainLine(text).replace(/[\\`*_{}[\]()#+!|<>~&-]/g, "\\$&");
}
