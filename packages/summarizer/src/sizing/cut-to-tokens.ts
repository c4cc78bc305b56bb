import { type Cut, cut } from "../cut-text.ts";
import { escapeText } from "../escape-text.ts";
import type { TokenEstimator } from "../tokens/token-estimator.ts";

/** The most of a text, its beginning and its end, that takes no more than `tokens` once it is escaped. */
export function cutToTokens(text: string, tokens: number, estimator: TokenEstimator): Cut {
  const fits = (candidate: string) => estimator.text(escapeText(candidate)) <= tokens;
  if (fits(text)) return { text, leftOut: 0 };
  const limit = largest(text.length, (characters) => fits(cut(text, characters, "head-tail").text));
  return cut(text, limit, "head-tail");
}

/** The largest whole number from 0 to `most` for which `holds`, if it holds for all smaller ones; 0 if for none. */
export function largest(most: number, holds: (value: number) => boolean): number {
  let low = 0;
  let high = Math.max(0, most);
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (holds(middle)) low = middle;
    else high = middle - 1;
  }
  return low;
}
