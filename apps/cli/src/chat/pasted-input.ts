import { Transform } from "node:stream";

/** Stands for a new line where a text of several lines is typed in one. */
const NEW_LINE_SIGN = "⏎";

const PASTE_START = "\u001b[200~";
const PASTE_END = "\u001b[201~";

/** Asks a terminal to say what is pasted, and to stop saying it. */
export const PASTE_MODE = { on: "\u001b[?2004h", off: "\u001b[?2004l" } as const;

/** A text of several lines as it is typed in one, and back. */
export const asOneLine = (text: string): string => text.replace(/\r\n?|\n/g, ` ${NEW_LINE_SIGN} `);
export const asTyped = (line: string): string =>
  line.replaceAll(new RegExp(` ?${NEW_LINE_SIGN} ?`, "g"), "\n");

/**
 * What a terminal says, with pasted text as one line: its new lines would send it in pieces. The marks of the paste are
 * taken out; a mark that comes in two pieces is waited for.
 */
export function pastedAsOneLine(): Transform {
  let held = "";
  let isPasting = false;
  return new Transform({
    decodeStrings: false,
    encoding: "utf8",
    transform(chunk: Buffer | string, _encoding, done) {
      let text = held + chunk.toString();
      let out = "";
      for (;;) {
        const mark = isPasting ? PASTE_END : PASTE_START;
        const at = text.indexOf(mark);
        const piece = text.slice(0, at < 0 ? text.length - heldLength(text, mark) : at);
        out += isPasting ? asOneLine(piece) : piece;
        text = text.slice(piece.length);
        if (at < 0) break;
        text = text.slice(mark.length);
        isPasting = !isPasting;
      }
      held = text;
      done(null, out);
    },
  });
}

/** How much of the end of a text may be the beginning of a mark. A lone Escape is a key. */
function heldLength(text: string, mark: string): number {
  for (let length = Math.min(mark.length - 1, text.length); length > 1; length--)
    if (text.endsWith(mark.slice(0, length))) return length;
  return 0;
}
