import { cutToColumns } from "@espalier/session-tree";
import { readInput, type TerminalInput } from "../terminal/screen/keys.ts";
import { handleSignals } from "../terminal/screen/screen.ts";
import { editText, insertText, type TextField, textField } from "../terminal/state/text-field.ts";
import { columnsOf, styledText } from "../text.ts";

/** Marks in front of the first line of the input, and of the others. */
const PROMPT = "› ";
const CONTINUED = "  ";

/** Rows that stay free above and below what is drawn anew. */
const SPARE_ROWS = 3;

/** Candidates for the word before the cursor. */
export interface Completion {
  /** Position in the text at which the word begins. */
  from: number;
  candidates: readonly Candidate[];
}

export interface Candidate {
  text: string;
  /** Description beside it in a list. */
  note?: string;
}

interface ChatScreenOptions {
  /** Earlier inputs, newest first: the arrow keys bring them back. */
  history?: readonly string[];
  /** Candidates for Tab, for the text before the cursor. */
  complete(before: string): Completion;
  onLine(text: string): void;
  /** Escape. */
  onEscape(): void;
  /** Ctrl-C. */
  onInterrupt(): void;
  /** The input is over: Ctrl-D in an empty input, or `close`. */
  onClose(): void;
}

/**
 * A terminal with an input at the bottom. The conversation stays above it and scrolls; between it and the input are a
 * few rows that are redrawn whenever they change. On a full screen the input stays at the bottom.
 */
export class ChatScreen {
  readonly #options: ChatScreenOptions;
  readonly #output = process.stdout;
  readonly #reading: { end: () => void };
  readonly #signals: ReturnType<typeof handleSignals>;
  /** Earlier inputs, oldest first. */
  readonly #history: string[];
  /** Index in the history of the shown input; its length for the draft. */
  #at: number;
  /** Texts that were changed and are not shown: the draft, and earlier inputs, by their index. */
  readonly #changed = new Map<number, TextField>();
  #field = textField();
  /** The text that a key deleted last; Ctrl-Y inserts it. */
  #deleted = "";
  /** Rows of `show`. */
  #live: readonly string[] = [];
  /** Rows that are shown until the next key: candidates, or a question. */
  #passing: readonly string[] = [];
  /** The question that is shown. */
  #asked: string | undefined;
  /** Columns of each row as drawn, and the position of the cursor among them. */
  #drawn: { widths: readonly number[]; row: number; column: number } = { widths: [], row: 0, column: 0 };
  /** Rows from the start of the chat to the end of the input. From a full screen on the input is at its bottom. */
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

  get columns(): number {
    return this.#output.columns || 80;
  }

  /** Rows that may be drawn anew, besides the input. */
  get liveRows(): number {
    return Math.max(1, this.#rows - SPARE_ROWS);
  }

  /** The text that is typed and not sent. */
  get draft(): string {
    return this.#field.text;
  }

  /** Prints a text that stays, above rows as for `show`. */
  say(text: string, rows: readonly string[]): void {
    const said = `${styledText(text)}\n`;
    this.#live = rows.map(styledText);
    if (this.#isOpen) this.#draw(said);
    else this.#output.write(said);
  }

  /** Shows these rows above the input, instead of those before. None may be wider than the terminal. */
  show(rows: readonly string[]): void {
    this.#live = rows.map(styledText);
    if (this.#isOpen) this.#draw("");
  }

  /** Puts a text into the input, for the user to change and send. A draft goes to the history. */
  edit(text: string): void {
    this.#remember(this.#field.text);
    this.#setField(textField(text));
  }

  /** Puts a text that could not be used back: into an empty input, else into the history. */
  restore(text: string): void {
    if (this.#field.text === "") this.#setField(textField(text));
    else this.#remember(text);
  }

  /** Removes the draft; the up key brings it back. */
  clear(): void {
    this.edit("");
  }

  /** Shows a question of one row until the next key. Returns true when it was shown already: the same key came twice. */
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

  /** Also while the process ends. */
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
    if (input.type === "paste") this.#setField(insertText(this.#field, input.text.replace(/\r\n?/g, "\n")));
    else if (input.type === "key") this.#press(input.key);
    if (this.#isOpen) this.#draw("");
  }

  #press(key: string): void {
    const act = this.#keys[key];
    if (act) {
      act();
      return;
    }
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
    "ctrl-b": () => this.#press("left"),
    "ctrl-f": () => this.#press("right"),
    "ctrl-y": () => this.#setField(insertText(this.#field, this.#deleted)),
    "ctrl-l": () => this.#wipe(),
    "ctrl-c": () => this.#options.onInterrupt(),
    escape: () => this.#options.onEscape(),
    "ctrl-d": () => (this.#field.text === "" ? this.close() : this.#press("delete")),
    "ctrl-z": () => this.#signals.suspend(),
  };

  /** Clears the terminal; the input is at its top then. */
  #wipe(): void {
    this.#output.write(CLEAR);
    this.#drawn = { widths: [], row: 0, column: 0 };
    this.#height = 0;
  }

  /** Sends the input; a backslash at its end begins another line instead. */
  #send(): void {
    const { text, at } = this.#field;
    if (text[at - 1] === "\\") {
      this.#setField(insertText(editText(this.#field, "backspace"), "\n"));
      return;
    }
    this.#remember(text);
    this.#setField(textField());
    // Blanks before the first word are content, empty lines around the text are none.
    this.#options.onLine(text.replace(/^(?:[^\S\n]*\n)+/, "").trimEnd());
  }

  /** Inserts what all candidates begin with; lists them when that adds nothing. */
  #complete(): void {
    const { text, at } = this.#field;
    const { from, candidates } = this.#options.complete(text.slice(0, at));
    if (candidates.length === 0) return;
    const typed = text.slice(from, at);
    const [only] = candidates;
    const common = candidates.map((one) => one.text).reduce(commonBeginning);
    const isOnly = candidates.length === 1;
    const added = isOnly && !only!.text.endsWith("/") ? `${only!.text} ` : common;
    if (isOnly || added.length > typed.length) {
      this.#field = insertText({ text: text.slice(0, from) + text.slice(at), at: from }, added);
      return;
    }
    const width = Math.min(LISTED_WIDTH, Math.max(...candidates.map((one) => columnsOf(one.text))));
    const listed = candidates.slice(0, LISTED).map(({ text: word, note = "" }) => {
      const name = word + " ".repeat(Math.max(0, width - columnsOf(word)));
      return note === "" ? `  ${word}` : `  ${name}  ${note}`;
    });
    const left = candidates.length - listed.length;
    const rows = left > 0 ? [...listed, `  … ${left} more`] : listed;
    this.#passing = rows.map((one) => cutToColumns(styledText(one), this.columns - 1));
  }

  /** Moves by a line, or at the first and the last one to an earlier or a later input. */
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

  /** Adds a text to the history, behind a draft that an earlier input was shown instead of. */
  #remember(text: string): void {
    const draft = this.#at === this.#history.length ? undefined : this.#changed.get(this.#history.length);
    for (const one of [draft?.text ?? "", text])
      if (one.trim() !== "" && this.#history.at(-1) !== one) this.#history.push(one);
    this.#at = this.#history.length;
    this.#changed.clear();
  }

  #setField(field: TextField): void {
    this.#field = field;
    if (this.#isOpen) this.#draw("");
  }

  get #rows(): number {
    return this.#output.rows || 24;
  }

  readonly #redraw = (): void => this.#draw("", true);

  /**
   * Writes `text` where the live rows began, and those and the input below it.
   *
   * @param isMoved true: the terminal was resized, and what is drawn may be in another row
   */
  #draw(text: string, isMoved = false): void {
    if (!this.#isEntered) return;
    const { columns } = this;
    const { widths, row, column } = this.#drawn;
    const up = widths.slice(0, row).reduce((sum, width) => sum + rowsOf(width, columns), 0);
    const input = this.#isOpen
      ? inputRows(this.#field, columns, Math.max(1, this.#rows - SPARE_ROWS))
      : NO_INPUT;
    const passing = this.#passing;
    const room = Math.max(1, this.#rows - SPARE_ROWS - input.rows.length + 1 - passing.length);
    const below = [...this.#live.slice(-room), ...passing];
    const said =
      text === ""
        ? 0
        : text
            .slice(0, -1)
            .split("\n")
            .reduce((sum, one) => sum + rowsOf(columnsOf(unstyled(one)), columns), 0);
    const before = widths.reduce((sum, width) => sum + rowsOf(width, columns), 0);
    const after = said + below.length + input.rows.length;
    const isFull = this.#height >= this.#rows;
    const gap = isFull && this.#isOpen && !isMoved ? Math.max(0, before - after) : 0;
    this.#height += after + gap - before;
    const drawn = [...Array<string>(gap).fill(""), ...below, ...input.rows];
    const cursorRow = drawn.length - input.rows.length + input.row;
    const back = drawn.length - 1 - cursorRow;
    const way = `\r${back > 0 ? `\u001b[${back}A` : ""}${input.column > 0 ? `\u001b[${input.column}C` : ""}`;
    const start = `\r${up + Math.floor(column / columns) > 0 ? `\u001b[${up + Math.floor(column / columns)}A` : ""}\u001b[J`;
    this.#output.write(`${UPDATE.begin}${start}${text}${drawn.join("\n")}${way}${UPDATE.end}`);
    this.#drawn = {
      widths: drawn.map((one) => columnsOf(unstyled(one))),
      row: Math.max(0, cursorRow),
      column: input.column,
    };
  }
}

/** Candidates that are listed, and the most columns for their texts. */
const LISTED = 10;
const LISTED_WIDTH = 40;

const commonBeginning = (a: string, b: string): string => {
  let length = 0;
  while (length < a.length && a[length] === b[length]) length++;
  return a.slice(0, length);
};

/** Keys whose deleted text Ctrl-Y inserts. */
const DELETING: ReadonlySet<string> = new Set(["ctrl-u", "ctrl-k", "ctrl-w", "alt-d", "alt-backspace"]);

/**
 * Marks around pasted text, and Enter with its modifiers: as kitty encodes it, and as xterm does. A terminal ignores
 * what it does not know.
 */
const MODES = {
  on: "\u001b[?2004h\u001b[>1u\u001b[>4;1m",
  off: "\u001b[>4;0m\u001b[<u\u001b[?2004l",
} as const;

/** Marks around an update, so that a terminal shows all of it at once. */
const UPDATE = { begin: "\u001b[?2026h", end: "\u001b[?2026l" } as const;

const CLEAR = "\u001b[2J\u001b[H";

/** Rows that a line takes. */
const rowsOf = (width: number, columns: number): number => Math.max(1, Math.ceil(width / columns));

const unstyled = (text: string): string => text.replace(/\u001b\[[\d;]*m/g, "");

const NO_INPUT = { rows: [] as string[], row: 0, column: 0 };

/** The input as rows, and the cursor among them. Of a long input the part around the cursor. */
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
      // A long paste is laid out at every key.
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
