import stringWidth from "string-width";

const graphemes = new Intl.Segmenter("en", { granularity: "grapheme" });

/** A text of at most so many columns of a terminal, `…` included where something is missing. */
export function cutToColumns(text: string, columns: number): string {
  // No code unit takes more than two columns: most texts need not be measured.
  if (text.length * 2 <= columns || stringWidth(text) <= columns) return text;
  let used = 0;
  let kept = "";
  for (const { segment } of graphemes.segment(text)) {
    used += stringWidth(segment);
    if (used > columns - 1) break;
    kept += segment;
  }
  return `${kept}…`;
}

/** The text with spaces behind it, so that it takes so many columns. */
export function padToColumns(text: string, columns: number): string {
  return text + " ".repeat(Math.max(0, columns - stringWidth(text)));
}
