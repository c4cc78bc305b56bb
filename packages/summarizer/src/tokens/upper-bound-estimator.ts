import { isHighSurrogate, isLowSurrogate } from "../code-points.ts";
import { messageParts } from "./message-parts.ts";
import type { TokenEstimator } from "./token-estimator.ts";

/**
 * The most a picture costs: a provider scales larger ones down first (Anthropic: at most 2,576 pixels on the longer
 * side and about 4,800 tokens; other models cost less).
 */
export const IMAGE_UPPER_BOUND = 5_000;

/** Tokens around a message or a block that no text accounts for: roles, separators, the names of JSON fields. */
const FRAME = 12;

/**
 * Never less than the real number of tokens: a token of a byte-level vocabulary stands for at least one byte of UTF-8,
 * so no text has more tokens than bytes. English prose has about a quarter of that, minified JSON and base64 a half to
 * three quarters, rare Chinese characters nearly all. For decisions where too small a guess would fail: whether a
 * request fits. For anything a person reads, use another estimator.
 */
export const upperBoundEstimator: TokenEstimator = {
  name: "upper-bound",
  overhead: FRAME,
  estimate(message) {
    const { prose, code, images } = messageParts(message);
    let bytes = images * IMAGE_UPPER_BOUND;
    let blocks = 1 + images;
    for (const text of [...prose, ...code]) {
      bytes += utf8Length(text);
      blocks++;
    }
    return blocks === 1 ? 0 : bytes + blocks * FRAME;
  },
  text: utf8Length,
};

/** Bytes of a text in UTF-8; a lone surrogate counts as U+FFFD, which it becomes. */
function utf8Length(text: string): number {
  let bytes = 0;
  for (let index = 0; index < text.length; index++) {
    const unit = text.charCodeAt(index);
    if (unit < 0x80) bytes += 1;
    else if (unit < 0x800) bytes += 2;
    else if (isHighSurrogate(unit) && isLowSurrogate(text.charCodeAt(index + 1))) {
      bytes += 4;
      index++;
    } else bytes += 3;
  }
  return bytes;
}
