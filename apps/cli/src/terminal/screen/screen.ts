import { writeSync } from "node:fs";
import type { ReadStream } from "node:tty";
import { graphemes } from "@espalier/session-tree";
import { columnsOf } from "../../text.ts";
import { type Frame, fitLine, type Line, type Style } from "./frame.ts";

const ESC = "\u001b[";

/** Enters the alternate screen, without cursor and automatic wrap; reports mouse wheel, clicks and pasted text. */
const ENTER = `${ESC}?1049h${ESC}?25l${ESC}?7l${ESC}?1000h${ESC}?1006h${ESC}?2004h${ESC}2J`;
const LEAVE = `${ESC}?2004l${ESC}?1006l${ESC}?1000l${ESC}?7h${ESC}?25h${ESC}0m${ESC}?1049l`;

/** Sequences around an update, so that a terminal shows all of it at once; other terminals ignore them. */
export const UPDATE = { begin: `${ESC}?2026h`, end: `${ESC}?2026l` };

/** Milliseconds between two attempts to write to a busy terminal. */
const BUSY = 2;
const SLEEPER = new Int32Array(new SharedArrayBuffer(4));

/** Properties of a terminal's output that a screen uses. */
interface ScreenOutput {
  readonly fd: number;
  readonly columns: number;
  readonly rows: number;
}

export interface PaintOptions {
  colours: boolean;
  ascii: boolean;
}

/** The alternate screen of a terminal, drawn line by line; `leave` restores the terminal, also while the process ends. */
export class Screen {
  readonly #input: Pick<ReadStream, "setRawMode" | "resume" | "pause">;
  readonly #output: ScreenOutput;
  readonly #options: PaintOptions;
  #isEntered = false;
  /** Painted lines on the screen; empty when the content of the screen is unknown. */
  #shown: readonly string[] = [];

  constructor(
    input: Pick<ReadStream, "setRawMode" | "resume" | "pause">,
    output: ScreenOutput,
    options: PaintOptions,
  ) {
    this.#input = input;
    this.#output = output;
    this.#options = options;
  }

  get size(): { columns: number; rows: number } {
    return { columns: this.#output.columns || 80, rows: this.#output.rows || 24 };
  }

  enter(): void {
    if (this.#isEntered) return;
    this.#isEntered = true;
    this.#shown = [];
    this.#input.setRawMode(true);
    this.#input.resume();
    this.#write(ENTER);
  }

  /** Leaves the screen. Synchronous, so that it works in an `exit` handler. */
  leave(): void {
    if (!this.#isEntered) return;
    this.#isEntered = false;
    this.#write(LEAVE);
    this.#input.setRawMode(false);
    this.#input.pause();
  }

  /** Writes the lines that differ from the screen. Does nothing before `enter` and after `leave`. */
  draw(frame: Frame, columns: number): void {
    if (!this.#isEntered) return;
    const before = this.#shown;
    this.#shown = paintLines(frame, columns, this.#options);
    const changed = this.#shown.flatMap((text, at) =>
      text === before[at] ? [] : [`${ESC}${at + 1}H${text}`],
    );
    if (changed.length > 0) this.#write(`${UPDATE.begin}${changed.join("")}${UPDATE.end}`);
  }

  /** Erases the screen, so that the next frame is written completely. */
  clear(): void {
    if (!this.#isEntered) return;
    this.#shown = [];
    this.#write(`${ESC}2J`);
  }

  /** Copies a text to the clipboard of the user's terminal (OSC 52). This also works over remote connections. */
  copy(text: string): void {
    this.#write(`\u001b]52;c;${Buffer.from(text, "utf8").toString("base64")}\u0007`);
  }

  #write(text: string): void {
    const bytes = Buffer.from(text);
    for (let done = 0; done < bytes.length; ) {
      try {
        done += writeSync(this.#output.fd, bytes, done);
      } catch (error) {
        const { code } = error as NodeJS.ErrnoException;
        // A closed terminal accepts no more output; a busy terminal accepts the rest a moment later.
        if (code === "EIO" || code === "EPIPE") return;
        if (code !== "EAGAIN") throw error;
        Atomics.wait(SLEEPER, 0, 0, BUSY);
      }
    }
  }
}

/** Paints a frame as text for a terminal: lines of exactly `columns` columns. */
export const paintLines = (frame: Frame, columns: number, options: PaintOptions): string[] =>
  frame.map((one) => paintLine(one, columns, options));

function paintLine(given: Line, columns: number, { colours, ascii }: PaintOptions): string {
  const palette = colours ? COLOURED : COLOURLESS;
  const selected = colours ? SELECTED : REVERSED;
  const painted = fitLine(given, columns).spans.map(({ text, style, isSelected = false }) => {
    const begun = isSelected && style !== "match" ? selected : palette[style];
    const shown = ascii ? asciiText(text) : text;
    return begun === "" ? shown : `${begun}${shown}${RESET}`;
  });
  return painted.join("");
}

/** Replaces non-ASCII characters by ASCII of the same width: `?` for each column of one that no drawing has. */
function asciiText(text: string): string {
  if (ONLY_ASCII.test(text)) return text;
  const shown = [...graphemes(text)].map((character) =>
    ONLY_ASCII.test(character) ? character : (ASCII[character] ?? "?".repeat(columnsOf(character))),
  );
  return shown.join("");
}

const ONLY_ASCII = /^[\n -~]*$/;

/** Escape sequence that begins each style. */
type Palette = Readonly<Record<Style, string>>;

const RESET = "\u001b[0m";

/** Colours of the selected row: one background and one foreground for all its parts. */
const SELECTED = "\u001b[97;44m";
const REVERSED = "\u001b[7m";

const COLOURED: Palette = {
  plain: "",
  dim: "\u001b[2m",
  strong: "\u001b[1m",
  heading: "\u001b[1;36m",
  user: "\u001b[36m",
  model: "\u001b[32m",
  tool: "\u001b[34m",
  summary: "\u001b[35m",
  label: "\u001b[33m",
  leaf: "\u001b[1;32m",
  code: "\u001b[36m",
  match: "\u001b[30;43m",
  error: "\u001b[31m",
  cursor: "\u001b[7m",
};

/** Styles without colours (https://no-color.org): bold and dim are allowed. */
const COLOURLESS: Palette = {
  ...COLOURED,
  heading: "\u001b[1m",
  user: "\u001b[1m",
  model: "",
  tool: "",
  summary: "",
  label: "",
  leaf: "\u001b[1m",
  code: "",
  match: "\u001b[4m",
  error: "\u001b[1m",
};

/** Characters of drawings, and their replacements in ASCII. */
const ASCII: Readonly<Record<string, string>> = {
  "│": "|",
  "├": "+",
  "└": "+",
  "─": "-",
  "…": "~",
  "▸": ">",
  "▾": "v",
  "●": "*",
  "○": "o",
  "◆": "#",
  "█": "#",
  "▓": "=",
  "░": ".",
  "▐": "|",
  "┃": "|",
  "┌": "+",
  "·": "-",
  "→": ">",
  "←": "<",
  "↑": "^",
  "↓": "v",
  "•": "-",
  "≡": "=",
  "⇠": "<",
  "✓": "+",
  "✗": "x",
  "—": "-",
  "×": "x",
};

/** Signals that end the program, and their numbers; the exit code is 128 plus the number. */
const FATAL: Readonly<Partial<Record<NodeJS.Signals, number>>> = { SIGHUP: 1, SIGINT: 2, SIGTERM: 15 };

/**
 * Restores the terminal when the program ends (also by SIGHUP, SIGINT or SIGTERM) or stops, and draws again when it
 * continues. `suspend` stops the program; `forget` removes all handlers.
 */
export function handleSignals(screen: Pick<Screen, "enter" | "leave">, draw: () => void) {
  const end = (signal: NodeJS.Signals) => {
    screen.leave();
    process.exit(128 + (FATAL[signal] ?? 0));
  };
  const fatal = Object.keys(FATAL) as NodeJS.Signals[];
  const leave = () => screen.leave();
  /** Removes the handler, so that the signal has its default effect. */
  const stop = (target: number) => {
    screen.leave();
    process.off("SIGTSTP", stopped);
    process.kill(target, "SIGTSTP");
  };
  const stopped = () => stop(process.pid);
  const continued = () => {
    process.on("SIGTSTP", stopped);
    screen.enter();
    draw();
  };
  for (const signal of fatal) process.on(signal, end);
  process.on("SIGTSTP", stopped);
  process.on("SIGCONT", continued);
  // This also runs after an uncaught error.
  process.on("exit", leave);
  return {
    // Stops the whole process group, like Ctrl-Z on a terminal in its normal mode.
    suspend: () => stop(0),
    forget() {
      for (const signal of fatal) process.off(signal, end);
      process.off("SIGTSTP", stopped);
      process.off("SIGCONT", continued);
      process.off("exit", leave);
    },
  };
}
