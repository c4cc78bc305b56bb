import { writeSync } from "node:fs";
import type { ReadStream, WriteStream } from "node:tty";

const ESC = "\u001b[";

/** The other screen, so that what stood on the terminal comes back; no cursor; the wheel; pasted text told as such. */
const ENTER = `${ESC}?1049h${ESC}?25l${ESC}?1000h${ESC}?1006h${ESC}?2004h${ESC}2J${ESC}H`;
const LEAVE = `${ESC}?2004l${ESC}?1006l${ESC}?1000l${ESC}?25h${ESC}0m${ESC}?1049l`;
const CLEAR = `${ESC}2J${ESC}H`;

/** Milliseconds between two tries to write to a terminal that is busy. */
const BUSY = 2;
const SLEEPER = new Int32Array(new SharedArrayBuffer(4));

/** A terminal as a screen of ours; `leave` gives it back as it was, whatever happened. */
export class Tty {
  readonly #input: ReadStream;
  readonly #output: WriteStream & { fd: number };
  #isOurs = false;

  constructor(input: ReadStream, output: WriteStream & { fd: number }) {
    this.#input = input;
    this.#output = output;
  }

  /** Whether the screen is ours: after `enter`, and before `leave`. */
  get isOurs(): boolean {
    return this.#isOurs;
  }

  get size(): { columns: number; rows: number } {
    return { columns: this.#output.columns || 80, rows: this.#output.rows || 24 };
  }

  enter(): void {
    if (this.#isOurs) return;
    this.#isOurs = true;
    this.#input.setRawMode(true);
    this.#input.resume();
    this.#write(ENTER);
  }

  /** Synchronous: it works while a process ends. */
  leave(): void {
    if (!this.#isOurs) return;
    this.#isOurs = false;
    this.#write(LEAVE);
    this.#input.setRawMode(false);
    this.#input.pause();
  }

  clear(): void {
    if (this.#isOurs) this.#write(CLEAR);
  }

  /** Puts a painted frame on the screen, from its first line on. */
  paint(painted: string): void {
    if (this.#isOurs) this.#write(`${ESC}H${painted.replaceAll("\n", "\r\n")}${ESC}H`);
  }

  /** Hands a text to the clipboard of whoever sits at the terminal (OSC 52), over any number of connections. */
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
        // A terminal that is gone takes nothing any more; one that is busy takes the rest in a moment.
        if (code === "EIO" || code === "EPIPE") return;
        if (code !== "EAGAIN") throw error;
        Atomics.wait(SLEEPER, 0, 0, BUSY);
      }
    }
  }
}
