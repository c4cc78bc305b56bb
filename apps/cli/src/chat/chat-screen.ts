import { createInterface, type Interface } from "node:readline";
import { Transform } from "node:stream";
import { columnsOf, styledText } from "../text.ts";

const PROMPT = "› ";

/** Rows that stay free above and below what is drawn anew. */
const SPARE_ROWS = 3;

interface ChatScreenOptions {
  /** Earlier lines, newest first: the arrow keys bring them back. */
  history?: readonly string[];
  /** Words that Tab completes at the beginning of a line. */
  words: readonly string[];
  onLine(text: string): void;
  /** Ctrl-C. */
  onInterrupt(): void;
  /** The input is over: Ctrl-D, or `close`. */
  onClose(): void;
}

/**
 * A terminal with an input line at the bottom. The conversation stays above it and scrolls; between
 * it and the input line are a few rows that are redrawn whenever they change.
 */
export class ChatScreen {
  readonly #lines: Interface;
  readonly #output = process.stdout;
  #live: readonly string[] = [];
  /** Rows between what stays and the line to type in, as they are drawn. */
  #drawn = 0;
  #isOpen = true;

  constructor({ history = [], words, onLine, onInterrupt, onClose }: ChatScreenOptions) {
    const { stdin } = process;
    const typed = stdin.setEncoding("utf8").pipe(pastedAsOneLine());
    // So that the keys come one by one, also after the process was suspended.
    const input = Object.assign(typed, { setRawMode: (mode: boolean) => stdin.setRawMode(mode) });
    this.#output.write(PASTE_MODE.on);
    this.#lines = createInterface({
      input,
      output: this.#output,
      terminal: true,
      prompt: PROMPT,
      history: history.map(asOneLine),
      completer: (line: string) => [words.filter((word) => word.startsWith(line)), line],
    });
    this.#lines.on("line", (line) => {
      this.#draw("", Math.floor(columnsOf(PROMPT + line) / this.columns) + 1);
      onLine(asTyped(line).trim());
    });
    this.#lines.on("SIGINT", onInterrupt);
    this.#lines.on("close", () => {
      this.#isOpen = false;
      this.#live = [];
      this.#draw("");
      this.#output.off("resize", this.#redraw).write(PASTE_MODE.off);
      stdin.unpipe(typed).pause();
      onClose();
    });
    this.#output.on("resize", this.#redraw);
  }

  get columns(): number {
    return this.#output.columns || 80;
  }

  /** Rows that may be drawn anew. */
  get liveRows(): number {
    return Math.max(1, (this.#output.rows || 24) - SPARE_ROWS);
  }

  /** Prints a text that stays. */
  say(text: string): void {
    const said = `${styledText(text)}\n`;
    if (this.#isOpen) this.#draw(said);
    else this.#output.write(said);
  }

  /** Shows these rows above the line to type in, instead of those before. None may be wider than the terminal. */
  show(rows: readonly string[]): void {
    this.#live = rows.slice(-this.liveRows).map(styledText);
    if (this.#isOpen) this.#draw("");
  }

  /** Puts a text where it can be changed and sent. */
  edit(text: string): void {
    this.clear();
    this.#lines.write(asOneLine(text));
  }

  /** Takes away what was typed and not sent; says whether there was anything. */
  clear(): boolean {
    const isTyped = this.#lines.line !== "";
    this.#lines.write(null, { ctrl: true, name: "e" });
    this.#lines.write(null, { ctrl: true, name: "u" });
    return isTyped;
  }

  close(): void {
    this.#lines.close();
  }

  readonly #redraw = (): void => this.#draw("");

  /** Writes `text` where the live rows began, and those and the line to type in below it. */
  #draw(text: string, rowsAbove = this.#lines.getCursorPos().rows): void {
    const { rows: inputRows } = this.#lines.getCursorPos();
    const up = rowsAbove + this.#drawn;
    const live = this.#live.map((row) => `${row}\n`).join("");
    this.#drawn = this.#live.length;
    // The prompt goes up as many rows as its own cursor is down.
    const below = this.#isOpen ? "\n".repeat(inputRows) : "";
    this.#output.write(`\r${up > 0 ? `\u001b[${up}A` : ""}\u001b[J${text}${live}${below}`);
    if (this.#isOpen) this.#lines.prompt(true);
  }
}

/** Sign for a line break in a text that is typed in one line. */
const NEW_LINE_SIGN = "⏎";
const PASTE_START = "\u001b[200~";
const PASTE_END = "\u001b[201~";

/** Sequences that make a terminal mark pasted text, and stop it. */
const PASTE_MODE = { on: "\u001b[?2004h", off: "\u001b[?2004l" } as const;

/** Writes a text of several lines in one line, for typing; {@link asTyped} is the inverse. */
const asOneLine = (text: string): string => text.replace(/\r\n?|\n/g, ` ${NEW_LINE_SIGN} `);

const asTyped = (line: string): string => line.replaceAll(new RegExp(` ?${NEW_LINE_SIGN} ?`, "g"), "\n");

/**
 * Input of a terminal, with pasted text as one line: its new lines would send it in pieces. The marks of the paste are
 * taken out; a mark that comes in two pieces is waited for.
 */
function pastedAsOneLine(): Transform {
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

/** Length of the end of a text that may be the beginning of a mark. A lone Escape is a key. */
function heldLength(text: string, mark: string): number {
  for (let length = Math.min(mark.length - 1, text.length); length > 1; length--)
    if (text.endsWith(mark.slice(0, length))) return length;
  return 0;
}
