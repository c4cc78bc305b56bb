/** Characters that turn the direction of what follows, or hide in it, and other controls but tab and line ends. */
const HIDDEN =
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;

/** Colours of terminals, which say nothing on a page. */
const TERMINAL = /\u001b\[[0-9;?]*[A-Za-z]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)/g;

/** A text in which nothing is hidden: what would steer the reader's eye stands there by its number. */
export function visibleControls(text: string): string {
  return text
    .replace(TERMINAL, "")
    .replace(/\r\n?/g, "\n")
    .replace(
      HIDDEN,
      (character) => `⟨U+${character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}⟩`,
    )
    .toWellFormed();
}
