import { type Span, type Style, span } from "./frame.ts";

/** The text with what is searched for standing out. @param query in small letters; empty: nothing does */
export function matchedSpans(text: string, style: Style, query: string): Span[] {
  if (query === "") return [span(text, style)];
  const spans: Span[] = [];
  const small = text.toLowerCase();
  let at = 0;
  // Where small letters are of another length, places in one text are none in the other.
  for (let found = small.length === text.length ? small.indexOf(query) : -1; found >= 0; ) {
    spans.push(span(text.slice(at, found), style), span(text.slice(found, found + query.length), "match"));
    at = found + query.length;
    found = small.indexOf(query, at);
  }
  return [...spans, span(text.slice(at), style)];
}
