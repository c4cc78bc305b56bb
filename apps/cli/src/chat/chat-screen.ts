// Separate from chat.ts: it draws and reads keys, and knows no session.
import { readInput, type TerminalInput } from "../terminal/screen/keys.ts";
import { handleSignals, UPDATE } from "../terminal/screen/screen.ts";
import { editText, insertText, type TextField, textField } from "../terminal/state/text-field.ts";
import { columnsOf, cutToColumns, equalStart, padToColumns, styledText } from "../text.ts";

/** Prefix of the first line of the input, and of the other lines. */
const PROMPT = "› ";
const CONTINUED = "  ";

/** Rows that stay free above and below the redrawn rows. */
const SPARE_ROWS = 3;

/** Candidates for the word before the cursor. */
export interface Completion {
  /** Offset in the text at which the word begins. */
  from: number;
  candidates: readonly Candidate[];
}

export interface Candidate {
  text: string;
  /** Description next to the candidate in a list. */
  note?: string;
}

interface ChatScreenOptions {
  /** Earlier inputs, newest first, for the arrow keys. */
  history?: readonly string[];
  /** Returns candidates for Tab, for the text before the cursor. */
  complete(before: string): Completion;
  /** Returns the live rows for the current size of the terminal. None may be wider than it. */
  rows(): readonly string[];
  onLine(text: string): void;
  onEscape(): void;
  /** Called for Ctrl-C. */
  onInterrupt(): void;
  /** Called when the input ends: Ctrl-D in an empty input, or `close`. */
  onClose(): void;
}

/**
 * A terminal with an input at the bottom. The conversation is above it and scrolls; the rows between conversation and
 * input are redrawn at each change. When the screen is full, the input stays at its bottom.
 */
export class ChatScreen {
  readonly #options: ChatScreenOptions;
  readonly #output = process.stdout;
  readonly #reading: { end: () => void };
  readonly #signals: ReturnType<typeof handleSignals>;
  /** Earlier inputs, oldest first. */
  readonly #history: string[];
  /** Index of the shown input in the history; the length of the history for the draft. */
  #at: number;
  /** Changed texts that are not shown, by their index in the history: the draft, and earlier inputs. */
  readonly #changed = new Map<number, TextField>();
  #field = textField();
  /** Text that a key deleted last; Ctrl-Y inserts it. */
  #deleted = "";
  /** Rows above the input, as they were drawn last. */
  #live: readonly string[] = [];
  /** Rows that are shown until the next key: candidates, or a question. */
  #passing: readonly string[] = [];
  /** Question that is shown. */
  #asked: string | undefined;
  /** Width in columns of each drawn row, and the position of the cursor among them. */
  #drawn: { widths: readonly number[]; row: number; column: number } = { widths: [], row: 0, column: 0 };
  /** Rows from the start of the chat to the end of the input. When they fill the screen, the input is at its bottom. */
  #height = 0;
  #isOpen = true;
  #isEntered = false;

  constructor(options: ChatScreenOptions) {
    this.#options = options;
    this.#history = [...(options.history ?? [])].reverse();
    this.#at = this.#history.length;
    this.#signals = handleSignals({ enter: () => this.#enter(), leave: () => this.#leave() }, this.#redraw);
    this.#reading = readInput(process.stdin, (input) => this.#take(input), { hasAlt: true });
    process.stdin.on("end", this.close);
    this.#output.on("resize", this.#redraw);
    this.#enter();
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  get columns(): number {
    return this.#output.columns || 80;
  }

  /** Number of rows that may be redrawn, without the input. */
  get liveRows(): number {
    return Math.max(1, this.#rows - SPARE_ROWS);
  }

  /** Text in the input: the draft, or an earlier input that is shown. */
  get draft(): string {
    return this.#field.text;
  }

  /** Typed text that is not sent: the draft, and the shown earlier input when it was changed. */
  get unsent(): string {
    const { text } = this.#field;
    if (this.#at === this.#history.length) return text;
    const draft = this.#changed.get(this.#history.length)?.text ?? "";
    return [draft, text === this.#history[this.#at] ? "" : text].filter((one) => one !== "").join("\n\n");
  }

  /** Prints finished text above the live rows. */
  say(text: string): void {
    const said = `${styledText(text)}\n`;
    if (this.#isOpen) this.refresh(said);
    else this.#output.write(said);
  }

  /** Draws the live rows again; as one drawing with a finished text, so that its rows are no longer among them. */
  refresh(said = "", isMoved = false): void {
    this.#live = this.#options.rows().map(styledText);
    this.#draw(said, isMoved);
  }

  readonly #redraw = (): void => this.refresh("", true);

  /** Puts a text into an empty input, else into the history. Returns where the text is. */
  restore(text: string): "input" | "history" {
    if (this.#field.text !== "") {
      this.#remember(text);
      return "history";
    }
    this.#field = textField(text);
    this.#draw("");
    return "input";
  }

  /** Removes the draft; the up key restores it. */
  clear(): void {
    this.#remember(this.#field.text);
    this.#field = textField();
    this.#draw("");
  }

  /**
   * Shows a one-row question until the next input. Returns true if the same question was already shown and no input
   * except Ctrl-C came in between: the user has confirmed.
   */
  confirm(question: string): boolean {
    if (this.#asked === question) return true;
    this.#asked = question;
    this.#passing = [question];
    this.#draw("");
    return false;
  }

  readonly close = (): void => {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#live = [];
    this.#passing = [];
    this.#draw("");
    this.#output.off("resize", this.#redraw);
    process.stdin.off("end", this.close);
    this.#reading.end();
    this.#signals.forget();
    this.#leave();
    this.#options.onClose();
  };

  #enter(): void {
    if (this.#isEntered) return;
    this.#isEntered = true;
    this.#drawn = { widths: [], row: 0, column: 0 };
    process.stdin.setRawMode(true);
    process.stdin.resume();
    this.#output.write(MODES.on);
  }

  /** Restores the terminal; also called when the process ends. */
  #leave(): void {
    if (!this.#isEntered) return;
    this.#isEntered = false;
    this.#output.write(this.#isOpen ? `${MODES.off}\n` : MODES.off);
    process.stdin.setRawMode(false);
    process.stdin.pause();
  }

  #take(input: TerminalInput): void {
    this.#passing = [];
    if (input.type !== "key" || input.key !== "ctrl-c") this.#asked = undefined;
    if (input.type === "paste") this.#insert(input.text.replace(/\r\n?/g, "\n"));
    if (input.type === "key") (this.#keys[input.key] ?? (() => this.#edit(input.key)))();
    this.#draw("");
  }

  #edit(key: string): void {
    const { text } = this.#field;
    const changed = editText(this.#field, key);
    if (DELETING.has(key) && changed.text !== text)
      this.#deleted = text.slice(changed.at, changed.at + text.length - changed.text.length);
    this.#field = changed;
  }

  readonly #keys: Readonly<Record<string, () => void>> = {
    enter: () => this.#send(),
    tab: () => this.#complete(),
    up: () => this.#upOrDown("up", -1),
    down: () => this.#upOrDown("down", 1),
    "ctrl-p": () => this.#recall(-1),
    "ctrl-n": () => this.#recall(1),
    "ctrl-b": () => this.#edit("left"),
    "ctrl-f": () => this.#edit("right"),
    "ctrl-y": () => this.#insert(this.#deleted),
    "ctrl-l": () => this.#wipe(),
    "ctrl-c": () => this.#options.onInterrupt(),
    escape: () => this.#options.onEscape(),
    "ctrl-d": () => (this.#field.text === "" ? this.close() : this.#edit("delete")),
    "ctrl-z": () => this.#signals.suspend(),
  };

  /** Clears the terminal, and draws the input at its top. */
  #wipe(): void {
    this.#output.write(CLEAR);
    this.#drawn = { widths: [], row: 0, column: 0 };
    this.#height = 0;
  }

  /** Sends the input; after a backslash before the cursor, it begins a new line instead. */
  #send(): void {
    const { text, at } = this.#field;
    if (text[at - 1] === "\\") {
      this.#edit("backspace");
      this.#insert("\n");
      return;
    }
    this.clear();
    // Blanks before the first word are content; empty lines around the text are not.
    this.#options.onLine(text.replace(/^(?:[^\S\n]*\n)+/, "").trimEnd());
  }

  /**
   * Inserts the common beginning of all candidates; a space follows the only candidate, unless it is a folder. Lists
   * several candidates when nothing is inserted.
   */
  #complete(): void {
    const { text, at } = this.#field;
    const { from, candidates } = this.#options.complete(text.slice(0, at));
    if (candidates.length === 0) return;
    const typed = text.slice(from, at);
    const [only] = candidates;
    const common = candidates.map((one) => one.text).reduce((a, b) => a.slice(0, equalStart(a, b)));
    const isOnly = candidates.length === 1;
    const added = isOnly && !only!.text.endsWith("/") ? `${only!.text} ` : common;
    if (isOnly || added.length > typed.length) {
      this.#field = insertText({ text: text.slice(0, from) + text.slice(at), at: from }, added);
      return;
    }
    const width = Math.min(LISTED_WIDTH, Math.max(...candidates.map((one) => columnsOf(one.text))));
    const rows = candidates
      .slice(0, LISTED)
      .map(({ text: word, note = "" }) => `  ${padToColumns(word, width)}  ${note}`.trimEnd());
    if (candidates.length > LISTED) rows.push(`  … ${candidates.length - LISTED} more`);
    this.#passing = rows.map(styledText);
  }

  /** Moves by one line; from the first or last line, to an earlier or later input. */
  #upOrDown(key: "up" | "down", step: -1 | 1): void {
    const moved = editText(this.#field, key);
    if (moved !== this.#field) this.#field = moved;
    else this.#recall(step);
  }

  #recall(step: -1 | 1): void {
    const to = this.#at + step;
    if (to < 0 || to > this.#history.length) return;
    this.#changed.set(this.#at, this.#field);
    this.#at = to;
    this.#field = this.#changed.get(to) ?? textField(this.#history[to]);
  }

  /** Adds a text to the history, after a draft that was replaced by an earlier input. */
  #remember(text: string): void {
    const draft = this.#at === this.#history.length ? undefined : this.#changed.get(this.#history.length);
    for (const one of [draft?.text ?? "", text])
      if (one.trim() !== "" && this.#history.at(-1) !== one) this.#history.push(one);
    this.#at = this.#history.length;
    this.#changed.clear();
  }

  #insert(text: string): void {
    this.#field = insertText(this.#field, text);
  }

  get #rows(): number {
    return this.#output.rows || 24;
  }

  /** Writes `text`, then the redrawn rows and the input. `isMoved`: these rows may have moved, by a resize. */
  #draw(text: string, isMoved = false): void {
    if (!this.#isEntered) return;
    const { columns } = this;
    const { widths, row, column } = this.#drawn;
    const rowsIn = (drawn: readonly number[]) =>
      drawn.reduce((sum, width) => sum + Math.max(1, Math.ceil(width / columns)), 0);
    const input = this.#isOpen
      ? inputRows(this.#field, columns, Math.max(1, this.#rows - SPARE_ROWS))
      : NO_INPUT;
    const passing = this.#passing.map((one) =>
      widthOf(one) < columns ? one : cutToColumns(unstyled(one), columns - 1),
    );
    const room = Math.max(1, this.#rows - SPARE_ROWS - input.rows.length + 1 - passing.length);
    const below = [...this.#live.slice(-room), ...passing];
    const said = text === "" ? 0 : rowsIn(text.slice(0, -1).split("\n").map(widthOf));
    const before = rowsIn(widths);
    const after = said + below.length + input.rows.length;
    const isFull = this.#height >= this.#rows;
    const gap = isFull && this.#isOpen && !isMoved ? Math.max(0, before - after) : 0;
    this.#height += after + gap - before;
    const drawn = [...Array<string>(gap).fill(""), ...below, ...input.rows];
    const cursorRow = drawn.length - input.rows.length + input.row;
    const back = drawn.length - 1 - cursorRow;
    const way = `\r${back > 0 ? `\u001b[${back}A` : ""}${input.column > 0 ? `\u001b[${input.column}C` : ""}`;
    const up = rowsIn(widths.slice(0, row)) + Math.floor(column / columns);
    const start = `\r${up > 0 ? `\u001b[${up}A` : ""}\u001b[J`;
    this.#output.write(`${UPDATE.begin}${start}${text}${drawn.join("\n")}${way}${UPDATE.end}`);
    this.#drawn = { widths: drawn.map(widthOf), row: Math.max(0, cursorRow), column: input.column };
  }
}

/** Maximum number of listed candidates, and the maximum width of their texts. */
const LISTED = 10;
const LISTED_WIDTH = 40;

/** Keys that delete text for Ctrl-Y. */
const DELETING: ReadonlySet<string> = new Set(["ctrl-u", "ctrl-k", "ctrl-w", "alt-d", "alt-backspace"]);

/** Modes for pasted text, and for modifiers of Enter by kitty and xterm. A terminal ignores modes it does not know. */
const MODES = {
  on: "\u001b[?2004h\u001b[>1u\u001b[>4;1m",
  off: "\u001b[>4;0m\u001b[<u\u001b[?2004l",
} as const;

const CLEAR = "\u001b[2J\u001b[H";

const unstyled = (text: string): string => text.replace(/\u001b\[[\d;]*m/g, "");
const widthOf = (text: string): number => columnsOf(unstyled(text));

const NO_INPUT = { rows: [] as string[], row: 0, column: 0 };

/** Lays out the input in rows, with the cursor's position. Of a long input only the part around the cursor is shown. */
function inputRows({ text, at }: TextField, columns: number, most: number): typeof NO_INPUT {
  const width = Math.max(1, columns - 1 - PROMPT.length);
  const rows: string[] = [];
  let [row, column] = [0, 0];
  let offset = 0;
  for (const [index, content] of text.split("\n").entries()) {
    let shown = index === 0 ? PROMPT : CONTINUED;
    let used = 0;
    const place = () => {
      if (offset === at) [row, column] = [rows.length, PROMPT.length + used];
    };
    for (const character of content) {
      // A long paste is laid out again after each key, so the common case is fast.
      const wide = character <= "~" ? 1 : columnsOf(character);
      if (used + wide > width) {
        rows.push(shown);
        [shown, used] = [CONTINUED, 0];
      }
      place();
      shown += character;
      used += wide;
      offset += character.length;
    }
    place();
    rows.push(shown);
    offset++;
  }
  const from = Math.max(0, Math.min(row - Math.floor(most / 2), rows.length - most));
  return { rows: rows.slice(from, from + most), row: row - from, column };
}
