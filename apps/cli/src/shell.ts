import { createInterface } from "node:readline";
import type { ExtensionDialogs, OnBusy } from "@espalier/engine";
import { TemporaryFile } from "@espalier/interop/node";
import { jsonText, wellFormedJson } from "@espalier/jsonl-stream";
import { plainJson, type SessionStore } from "@espalier/session-tree";
import picocolors from "picocolors";
import { CommandError } from "./failure.ts";
import { plainLine, styledText } from "./text.ts";

export type Colours = ReturnType<typeof picocolors.createColors>;

/** Options of every command. */
interface GlobalOptions {
  /** Files of extensions for this call. */
  extension?: string[];
  /** Behavior when another process writes the session. */
  onBusy?: OnBusy;
  /** Name of the summarizer: `extractive`, `anthropic`, `anthropic:<model>`. */
  summarizer?: string;
  /** True: the extractive summarizer replaces a named one that fails. */
  fallback?: boolean;
  /** True: tell how much of a session's file was read to open it. */
  trace?: boolean;
  /** The address of the store that sessions are in. May hold a password: it is printed nowhere. */
  store?: string;
}

/** The surroundings of a command: its output, its style, its input. */
export interface Shell {
  /** True when one JSON value, or one a line, is all that may be printed. */
  readonly json: boolean;
  readonly output: Output;
  /** Functions that colour text; they do nothing where colours are not wanted. */
  readonly colours: Colours;
  /** Columns of the terminal; Infinity where none is. */
  readonly columns: number;
  /** Columns of the terminal that stderr is; 0 where it is none, and nothing should be drawn there. */
  readonly progressColumns: number;
  /** True when a person can be asked a question. */
  readonly interactive: boolean;
  /** Exit code: 1 when the command succeeded and its answer is no. */
  exitCode: number;
  /** Known when the command runs. */
  globals: GlobalOptions;
  /** The store of `--store`; undefined where sessions are files. Known when the command runs. */
  store: SessionStore | undefined;
  /** Answers about projects that changed since they were trusted, by folder: each is asked about once. */
  readonly trustAnswers: Map<string, Promise<boolean>>;
  /** Prints a sentence for people to stderr. */
  complain(sentence: string): void;
  /** The same, for a sentence that more than one step of a command may have to tell. */
  complainOnce(sentence: string): void;
  /** Dialogs for extensions; undefined where no person can be asked. */
  readonly dialogs: ExtensionDialogs | undefined;
  /** Shows the status that an extension keeps under a key. Default: it is not shown. */
  setStatus?(key: string, text: string | undefined): void;
}

/** Columns of a terminal that says 0, as a fresh pty does. */
const ASSUMED_COLUMNS = 80;

export function createShell(parameters: readonly string[]): Shell {
  const { stdin, stdout, stderr } = process;
  const json = wantsJson(parameters);
  const told = new Set<string>();
  const interactive = stdin.isTTY === true && stderr.isTTY === true && !json;
  const complain = (sentence: string) => void stderr.write(`${plainLine(sentence)}\n`);
  return {
    json,
    output: new Output(stdout),
    colours: picocolors.createColors(wantsColours(stdout)),
    columns: stdout.isTTY ? stdout.columns || ASSUMED_COLUMNS : Number.POSITIVE_INFINITY,
    progressColumns: stderr.isTTY ? stderr.columns || ASSUMED_COLUMNS : 0,
    interactive,
    exitCode: 0,
    globals: {},
    store: undefined,
    trustAnswers: new Map(),
    complainOnce(sentence) {
      if (!told.has(sentence)) this.complain(sentence);
      told.add(sentence);
    },
    complain,
    dialogs: interactive ? lineDialogs(complain, askOnTerminal) : undefined,
  };
}

/** Known before the arguments are parsed, so that an error in them is told as JSON too. */
function wantsJson(parameters: readonly string[]): boolean {
  const end = parameters.indexOf("--");
  return parameters.slice(0, end < 0 ? parameters.length : end).includes("--json");
}

/** https://no-color.org and https://force-color.org. */
function wantsColours(stream: NodeJS.WriteStream): boolean {
  const { NO_COLOR, FORCE_COLOR, TERM } = process.env;
  if (NO_COLOR) return false;
  if (FORCE_COLOR) return FORCE_COLOR !== "0";
  return stream.isTTY === true && TERM !== "dumb";
}

/** Characters that are collected before they are handed to the stream in one piece. */
const PIECE_LENGTH = 64 * 1024;

/** Bytes of a whole that are kept in memory; the rest of a longer one waits in a temporary file. */
const KEPT_IN_MEMORY = 16 * 1024 * 1024;

/** Thrown when the reader of the output has closed it, as `| head` does. */
export class OutputClosed extends Error {
  override readonly name = "OutputClosed";
}

/** Text on its way to a stream: collected in pieces, and waiting where the reader is slower than the command. */
export class Output {
  readonly #stream: NodeJS.WriteStream;
  #piece = "";

  constructor(stream: NodeJS.WriteStream) {
    this.#stream = stream;
    // The call that writes a piece throws its failure; the stream emits it a second time.
    stream.on("error", () => undefined);
  }

  /** @throws OutputClosed */
  async write(text: string): Promise<void> {
    this.#piece += text;
    if (this.#piece.length >= PIECE_LENGTH) await this.flush();
  }

  /**
   * Writes all of a text or nothing: the first piece is handed over when the last one is there, since what makes the pieces
   * may fail at any of them.
   * @throws what making a piece throws; EspalierError `no-room` where the rest of a long text cannot be kept
   */
  async writeWhole(pieces: Iterable<string>): Promise<void> {
    const beginning: Uint8Array[] = [];
    let rest: TemporaryFile | undefined;
    let kept = 0;
    let restLength = 0;
    try {
      for (const bytes of inPieces(pieces)) {
        if (kept < KEPT_IN_MEMORY) {
          beginning.push(bytes);
          kept += bytes.length;
          continue;
        }
        rest ??= new TemporaryFile();
        rest.writeAt(restLength, bytes);
        restLength += bytes.length;
      }
      await this.flush();
      for (const bytes of beginning) await this.#hand(bytes);
      for (let at = 0; at < restLength; at += PIECE_LENGTH) {
        const bytes = new Uint8Array(Math.min(PIECE_LENGTH, restLength - at));
        rest!.readAt(at, bytes);
        await this.#hand(bytes);
      }
    } finally {
      rest?.close();
    }
  }

  async writeLine(line: string): Promise<void> {
    await this.write(`${line}\n`);
  }

  /** Writes a line unchanged. */
  async writeBytes(line: Uint8Array): Promise<void> {
    await this.flush();
    await this.#hand(line);
    await this.#hand("\n");
  }

  /** Hands over what was collected; answers when the stream takes more. */
  async flush(): Promise<void> {
    const piece = this.#piece;
    this.#piece = "";
    if (piece !== "") await this.#hand(piece);
  }

  /** Answers when the stream has taken the piece, so that a slow reader slows the command down instead of filling memory. */
  #hand(piece: string | Uint8Array): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#stream.write(piece, (error) => {
        if (!error) resolve();
        else if ((error as NodeJS.ErrnoException).code === "EPIPE") reject(new OutputClosed());
        else
          reject(new CommandError("output", `Nothing can be printed: ${error.message}.`, { cause: error }));
      });
    });
  }
}

/** The same text as bytes, in pieces of about the length that is written at once. */
function* inPieces(texts: Iterable<string>): Generator<Uint8Array> {
  let piece = "";
  for (const text of texts) {
    piece += text;
    if (piece.length < PIECE_LENGTH) continue;
    yield Buffer.from(piece);
    piece = "";
  }
  yield Buffer.from(piece);
}

/** Prints an answer: the value with `--json`, else what people read. */
export async function print(shell: Shell, value: object, lines: Iterable<string>): Promise<void> {
  if (shell.json) await printJson(shell, value);
  else await printLines(shell, lines);
}

/** Prints one JSON value whole, or nothing where making it fails. */
export async function printJson({ output }: Shell, value: object): Promise<void> {
  await output.writeWhole(line(jsonPieces(value)));
}

function* line(pieces: Iterable<string>): Generator<string> {
  yield* pieces;
  yield "\n";
}

/** Prints one step of a stream: the value on a line of its own with `--json`, else a line that people read. */
export async function printStep({ json, output }: Shell, value: object, people: () => string): Promise<void> {
  if (json) await output.writeLine(jsonLine(value));
  else await printLine({ output }, people());
}

export async function printLines(shell: Pick<Shell, "output">, lines: Iterable<string>): Promise<void> {
  for (const line of lines) await printLine(shell, line);
}

/** Prints a line for people. All of them go out here: ids and names in them are of whoever wrote the session. */
export async function printLine({ output }: Pick<Shell, "output">, line: string): Promise<void> {
  await output.writeLine(styledText(line));
}

/**
 * The JSON text of an object or a list, in pieces: a field that is iterable (and no text) is written element by element. The
 * elements are never in memory as a whole.
 */
function* jsonPieces(value: object): Generator<string> {
  if (isIterable(value)) {
    yield* arrayPieces(value);
    return;
  }
  let separator = "{";
  for (const [key, field] of Object.entries(value)) {
    if (field === undefined) continue;
    yield `${separator}${JSON.stringify(key)}:`;
    separator = ",";
    if (isIterable(field)) yield* arrayPieces(field);
    else yield jsonLine(field);
  }
  yield separator === "{" ? "{}" : "}";
}

function* arrayPieces(elements: Iterable<unknown>): Generator<string> {
  let separator = "[";
  for (const element of elements) {
    yield `${separator}${jsonLine(element ?? null)}`;
    separator = ",";
  }
  yield separator === "[" ? "[]" : "]";
}

const isIterable = (value: unknown): value is Iterable<unknown> =>
  typeof value === "object" && value !== null && Symbol.iterator in value;

/**
 * The JSON text of a value on one line, in well-formed Unicode, since strict readers refuse the escapes of lone surrogates.
 * What a terminal would act on is escaped: the same value, and harmless on a screen.
 */
export const jsonLine = (value: unknown): string => plainJson(wellFormedJson(jsonText(value)));

/** Asks for one line; undefined where none comes: the signal fired, the input ended, or the person pressed Ctrl-C. */
type AskLine = (question: string, signal: AbortSignal | undefined) => Promise<string | undefined>;

/** Dialogs of extensions in lines: what is asked is said, and the answer is a line. */
export function lineDialogs(say: (text: string) => void, ask: AskLine): ExtensionDialogs {
  return {
    async confirm(title, message, { signal } = {}) {
      if (message) say(message);
      return isYes(await ask(`${plainLine(title)} [y/N]`, signal));
    },
    async select(title, choices, { signal } = {}) {
      choices.forEach((choice, at) => {
        say(`  ${at + 1}  ${choice}`);
      });
      const answer = (await ask(`${plainLine(title)} [1-${choices.length}]`, signal))?.trim() ?? "";
      return choices[Number(answer) - 1] ?? choices.find((choice) => choice === answer);
    },
    async input(title, placeholder, { signal } = {}) {
      const answer = await ask(
        `${plainLine(title)}${placeholder ? ` (${plainLine(placeholder)})` : ""}:`,
        signal,
      );
      return answer === "" ? undefined : answer;
    },
  };
}

const isYes = (answer: string | undefined): boolean => /^y(es)?$/i.test(answer?.trim() ?? "");

/** Asks a yes-or-no question on the terminal; anything but a yes is a no. */
export const confirmOnTerminal = async (question: string): Promise<boolean> =>
  isYes(await askOnTerminal(`${question} [y/N]`, undefined));

/** Asks on the terminal that stdin and stderr are. */
const askOnTerminal: AskLine = (question, signal) =>
  new Promise((resolve) => {
    const terminal = createInterface({ input: process.stdin, output: process.stderr });
    const end = (answer: string | undefined) => {
      signal?.removeEventListener("abort", close);
      resolve(answer);
      terminal.close();
    };
    const close = () => end(undefined);
    terminal.once("close", close);
    terminal.once("SIGINT", close);
    signal?.addEventListener("abort", close, { once: true });
    terminal.question(`${question} `, end);
  });
