/** Characters of a snippet on each side of what was found. */
const AROUND = 60;

/** What was found at `[start, end)` of a text, with some of what stands around it, on one line. */
export function snippetOf(text: string, start: number, end: number): string {
  const from = boundary(text, Math.max(0, start - AROUND), 1);
  const to = boundary(text, Math.min(text.length, end + AROUND), -1);
  const line = text.slice(from, to).replace(/\s+/g, " ").trim();
  return `${from > 0 ? "…" : ""}${line}${to < text.length ? "…" : ""}`;
}

/** The place itself, or the next one in a direction where it would split a code point. */
function boundary(text: string, at: number, step: 1 | -1): number {
  const unit = text.charCodeAt(at);
  return unit >= 0xdc00 && unit <= 0xdfff ? at + step : at;
}
