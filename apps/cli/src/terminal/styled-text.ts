import { type Line, type Span, type Style, span } from "./frame.ts";

/** What a style of picocolors begins with, and what that is on a screen of ours. */
const STYLES: Readonly<Record<string, Style>> = {
  "1": "strong",
  "2": "dim",
  "3": "strong",
  "4": "label",
  "9": "dim",
  "36": "code",
};

/** Codes that end one style, or all. */
const ENDS: ReadonlySet<string> = new Set(["0", "22", "23", "24", "29", "39"]);

/** A line that was styled for a terminal, in pieces; the innermost of styles inside each other counts. */
export function styledLine(text: string): Line {
  const spans: Span[] = [];
  const open: Style[] = [];
  for (const [at, part] of text.split(/\u001b\[([\d;]*)m/).entries()) {
    if (at % 2 === 0) {
      if (part !== "") spans.push(span(part, open.at(-1) ?? "plain"));
    } else if (ENDS.has(part)) open.pop();
    else open.push(STYLES[part] ?? "plain");
  }
  return { spans };
}
