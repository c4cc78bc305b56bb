/** Text beyond this many characters of one message is not searched for sentences: prose is never that long. */
const SEARCHED = 20_000;

/**
 * The sentences of a message's prose, in order, without list marks, headings' marks and emphasis. Fenced code and table
 * rows are passed over. A line end ends a sentence.
 */
export function splitSentences(text: string): string[] {
  const sentences: string[] = [];
  let fenced = false;
  for (const rawLine of text.slice(0, SEARCHED).split("\n")) {
    if (/^\s*(?:```|~~~)/.test(rawLine)) {
      fenced = !fenced;
      continue;
    }
    if (fenced || /^\s*\|/.test(rawLine) || /^\s*[-=*_]{3,}\s*$/.test(rawLine)) continue;
    const line = plainLine(rawLine);
    if (line === "") continue;
    sentences.push(
      ...line.split(/(?<=[.!?])\s+(?=[\p{Lu}"'“`(\p{Lo}])|(?<=[。！？])/u).map((part) => part.trim()),
    );
  }
  return sentences.filter((sentence) => sentence !== "");
}

/** A line without the marks that make it a heading, a list item, a quotation or emphasis. */
function plainLine(line: string): string {
  return line
    .replace(/^\s*(?:[#>]+\s*|[-*+•]\s+|\d{1,3}[.)]\s+|\[[ xX]\]\s+)*/, "")
    .replace(/(^|[\s(])\*\*([^*\s](?:[^*]*[^*\s])?)\*\*(?=[\s.,:;!?)]|$)/g, "$1$2")
    .replace(/^(?:\p{Extended_Pictographic}\u{fe0f}?|[→➜✓•\s])+/u, "")
    .trim();
}

/** Letters of a sentence without case, marks and spaces, to see whether two say the same. */
export function sameness(text: string): string {
  return text
    .toLowerCase()
    .replace(/[^\p{L}\p{N}]+/gu, " ")
    .trim();
}
