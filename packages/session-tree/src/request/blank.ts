// White space of JavaScript and, beyond it, what Python's str.isspace counts: providers judge by their own rules.
const WHITE_SPACE = /[\s\x1c-\x1f\x85]/;
const VISIBLE = /[^\s\x1c-\x1f\x85]/;

/** True for text without anything to read: providers refuse such a block. */
export function isBlank(text: string): boolean {
  return !VISIBLE.test(text);
}

/** The text without white space at its end. */
export function trimmedEnd(text: string): string {
  let end = text.length;
  while (end > 0 && WHITE_SPACE.test(text.charAt(end - 1))) end--;
  return text.slice(0, end);
}
