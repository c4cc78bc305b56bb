import { IMAGE_TOKENS } from "@espalier/session-tree";
import { messageParts } from "./message-parts.ts";
import type { TokenEstimator } from "./token-estimator.ts";

// The weights of origins 004.
const WORD = 0.75;
const CJK = 0.5;
const CODE_TOKEN = 0.75;
const SPECIAL = 0.25;
const OVERHEAD = 50;

const FENCE = /^[ \t]*(`{3,}|~{3,})[^\n]*\n?/m;

const CJK_CHARACTER = "[\\p{sc=Han}\\p{sc=Hiragana}\\p{sc=Katakana}\\p{sc=Hangul}]";
const LETTER = `(?!${CJK_CHARACTER})\\p{L}`;
const IDENTIFIER = `(?:${LETTER}|[_$])(?:${LETTER}|[\\p{M}\\p{N}_$])*`;
const NUMBER = "\\p{N}+(?:\\.\\p{N}+)*";
const VISIBLE = "[^\\p{Z}\\p{C}]";

/** Groups: a CJK character, a token, any other visible character. */
const IN_CODE = new RegExp(`(${CJK_CHARACTER})|(${IDENTIFIER}|${NUMBER})|(${VISIBLE})`, "gu");
const IN_PROSE = new RegExp(`(${CJK_CHARACTER})|((?:${LETTER}\\p{M}*)+)|(${VISIBLE})`, "gu");

/**
 * Words: 0.75 a word, 0.5 a Chinese, Japanese or Korean character, 0.75 a code token, 0.25 a special character, and 50
 * on top of a total. A word is a run of letters outside code; a code token is an identifier or a number inside a fence,
 * a call or a result; every other visible character is a special one. Rounded up per message and per text.
 */
export const wordEstimator: TokenEstimator = {
  name: "words",
  overhead: OVERHEAD,
  estimate(message) {
    const { prose, code, images } = messageParts(message);
    let weight = images * IMAGE_TOKENS;
    for (const text of prose) weight += weighProse(text);
    for (const text of code) weight += weigh(text, IN_CODE, CODE_TOKEN);
    return Math.ceil(weight);
  },
  text: (text) => Math.ceil(weighProse(text)),
};

/** Prose with fences in it: what stands between two fences (or after the last, unclosed one) is code. */
function weighProse(text: string): number {
  let weight = 0;
  let rest = text;
  let fence: string | undefined;
  while (rest !== "") {
    const found = fence === undefined ? FENCE.exec(rest) : closing(fence).exec(rest);
    const part = found ? rest.slice(0, found.index) : rest;
    weight += fence === undefined ? weigh(part, IN_PROSE, WORD) : weigh(part, IN_CODE, CODE_TOKEN);
    if (!found) break;
    weight += weigh(found[0], IN_CODE, CODE_TOKEN);
    rest = rest.slice(found.index + found[0].length);
    fence = fence === undefined ? found[1] : undefined;
  }
  return weight;
}

const closing = (fence: string) => new RegExp(`^[ \\t]*${fence}[ \\t]*(?:\\n|$)`, "m");

function weigh(text: string, classes: RegExp, tokenWeight: number): number {
  let weight = 0;
  for (const [, cjk, token] of text.matchAll(classes)) {
    weight += cjk !== undefined ? CJK : token !== undefined ? tokenWeight : SPECIAL;
  }
  return weight;
}
