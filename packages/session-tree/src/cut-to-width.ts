import { plainText } from "./plain-text.ts";

/** Text on one line that does nothing but show; its spaces stay, they may align what stands there. */
export function printable(text: string): string {
  return plainText(text).replace(/[\t\n]+/g, " ");
}

/** Columns that a text takes in a terminal: two for wide characters and emoji, none for marks that join the one before. */
export function textWidth(text: string): number {
  if (ASCII.test(text)) return text.length;
  let width = 0;
  for (const character of graphemes(text)) width += characterWidth(character);
  return width;
}

/** A text of at most `width` columns: cut between what a reader sees as characters, with `…` where something is missing. */
export function cutToWidth(text: string, width: number): string {
  // No code unit is wider than two columns: most texts need not be measured.
  if (text.length * 2 <= width) return text;
  if (ASCII.test(text)) return text.length <= width ? text : `${text.slice(0, width - 1)}…`;
  let used = 0;
  let end = 0;
  let kept = 0;
  for (const character of graphemes(text)) {
    used += characterWidth(character);
    if (used > width) return `${text.slice(0, kept)}…`;
    end += character.length;
    if (used < width) kept = end;
  }
  return text;
}

/** Code units that are looked at in one piece: ICU takes time by the square of a piece. */
const PIECE_LENGTH = 1_000;

/**
 * What a reader sees as characters, one after the other, in time by the length of what is taken of them. One of more than
 * 1,000 code units, which only marks upon marks make, counts as several.
 */
export function* graphemes(text: string): Generator<string> {
  for (let at = 0; at < text.length; ) {
    const end = at + PIECE_LENGTH;
    const piece = text.slice(at, isInPair(text, end) ? end - 1 : end);
    const isLast = at + piece.length === text.length;
    let before = "";
    for (const { segment } of characters.segment(piece)) {
      if (before !== "") yield before;
      at += before.length;
      before = segment;
    }
    // The last of a piece may go on in the next, unless nothing else was in it.
    if (!isLast && before.length < piece.length) continue;
    yield before;
    at += before.length;
  }
}

/** Whether a place is between the two halves of a character. */
const isInPair = (text: string, at: number): boolean =>
  /[\ud800-\udbff]/.test(text[at - 1] ?? "") && /[\udc00-\udfff]/.test(text[at] ?? "");

const ASCII = /^[\u0020-\u007e]*$/;
const characters = new Intl.Segmenter();

/** Of something that a reader sees as one character, however many code points it is made of. */
function characterWidth(character: string): number {
  const code = character.codePointAt(0)!;
  if (code < 0x300) return 1;
  if (JOINING.test(character)) return 0;
  if (EMOJI.test(character)) return 2;
  return WIDE.some(([from, to]) => code >= from && code <= to) ? 2 : 1;
}

/** Shown as a picture by itself, or because the mark behind it asks for it. */
const EMOJI = /^\p{Emoji_Presentation}|\ufe0f/u;

const JOINING = /^(?:\p{Mark}|\p{Default_Ignorable_Code_Point})+$/u;

/** Blocks of wide characters (Unicode's East Asian Width W and F, by whole blocks) and of emoji. */
const WIDE = [
  [0x1100, 0x115f],
  [0x2e80, 0xa4cf],
  [0xac00, 0xd7a3],
  [0xf900, 0xfaff],
  [0xfe30, 0xfe6f],
  [0xff00, 0xff60],
  [0xffe0, 0xffe6],
  [0x1f300, 0x1faff],
  [0x20000, 0x3fffd],
] as const;
