import { createInterface } from "node:readline";
import { Writable } from "node:stream";
import type { ExtensionDialogs, OpenOptions } from "@espalier/engine";
import { TemporaryFile } from "@espalier/interop/node";
import { jsonPieces, jsonText, wellFormedJson } from "@espalier/jsonl-stream";
import { plainJson, type SessionStore } from "@espalier/session-tree";
import picocolors from "picocolors";
import { CommandError } from "./failure.ts";
import type { globalOptions, OptionsOf } from "./options.ts";
import { plainLine, styledText, wrapToColumns } from "./text.ts";

export type Colours = ReturnType<typeof picocolors.createColors>;

/** Columns of a terminal that reports 0, as a new pty does. */
const ASSUMED_COLUMNS = 80;

/** Environment of a command: its output, its style, its input. */
export type Shell = ReturnType<typeof createShell>;

/** Colours and columns for a drawing. Without colours, markup stays. */
export type Look = Pick<Shell, "colours" | "columns">;

export function createShell(parameters: readonly string[]) {
  const { stdin, stdout, stderr } = process;
  const json = wantsJson(parameters);
  const told = new Set<string>();
  const interactive = stdin.isTTY === true && stderr.isTTY === true && !json;
  const progressColumns = stderr.isTTY ? stderr.columns || ASSUMED_COLUMNS : 0;
  const complain = (sentence: string): void =>
    void stderr.write(`${wrapToColumns(plainLine(sentence), progressColumns || Number.POSITIVE_INFINITY)}\n`);
  return {
    /** True when the output must be JSON only: one value, or one value per line. */
    json,
    output: new Output(stdout),
    /** Functions that colour text; without colours they return it unchanged. */
    colours: picocolors.createColors(wantsColours(stdout)),
    /** Columns of the terminal; Infinity when stdout is not a terminal. */
    columns: stdout.isTTY ? stdout.columns || ASSUMED_COLUMNS : Number.POSITIVE_INFINITY,
    /** Columns of the terminal on stderr; 0 when stderr is not a terminal and no progress is drawn. */
    progressColumns,
    /** True when a person can be asked a question. */
    interactive,
    /** Exit code of a command that does not throw: 0, or 1 for a negative answer. */
    exitCode: 0,
    /** Global options. Set before the command runs. */
    globals: {} as OptionsOf<typeof globalOptions>,
    /** Store of `--store`; undefined when sessions are files. Set before the command runs. */
    store: undefined as SessionStore | undefined,
    /** Answers about changed projects, by folder, so that each is asked about once. */
    trustAnswers: new Map<string, Promise<boolean>>(),
    /** Prints a sentence for people to stderr; on a terminal, wrapped between words. */
    complain,
    /** Like `complain`, but prints the same sentence only once. */
    complainOnce(sentence: string): void {
      if (!told.has(sentence)) this.complain(sentence);
      told.add(sentence);
    },
    /** Dialogs for extensions; undefined when no person can be asked. */
    dialogs: interactive ? lineDialogs(complain, askOnTerminal) : undefined,
    /** Shows a status of an extension, stored under its key. Default: the status is not shown. */
    setStatus: undefined as NonNullable<OpenOptions["ui"]>["setStatus"],
  };
}

/** Returns whether `--json` is given before `--`. Read before the arguments are parsed: a usage error is JSON too. */
function wantsJson(parameters: readonly string[]): boolean {
  const end = parameters.indexOf("--");
  return parameters.slice(0, end < 0 ? parameters.length : end).includes("--json");
}

/**
 * Sends what extensions and libraries print to the console to stderr, since stdout is for the command's answer; with `say`,
 * to that function, since a printed line would destroy a drawn screen.
 */
export function consoleTo(say?: (text: string) => void): void {
  const lines = new Writable({
    write(text, _, done) {
      say?.(plainLine(String(text)));
      done();
    },
  });
  const stream = say ? lines : process.stderr;
  Object.assign(console, { _stdout: stream, _stderr: stream });
}

/**
 * Returns whether to colour a stream: by NO_COLOR (https://no-color.org), then FORCE_COLOR (https://force-color.org);
 * without both, only a terminal whose TERM is not `dumb`.
 */
function wantsColours(stream: NodeJS.WriteStream): boolean {
  const { NO_COLOR, FORCE_COLOR, TERM } = process.env;
  if (NO_COLOR) return false;
  if (FORCE_COLOR) return FORCE_COLOR !== "0";
  return stream.isTTY === true && TERM !== "dumb";
}

/** Number of characters that are collected before they are written to the stream at once. */
const PIECE_LENGTH = 64 * 1024;

/** Bytes of an output that are kept in memory; the rest is kept in a temporary file. */
const KEPT_IN_MEMORY = 16 * 1024 * 1024;

/** Thrown when the reader of the output has closed the pipe, as `| head` does. */
export class OutputClosed extends Error {
  override readonly name = "OutputClosed";
}

/** Writes text to a stream in large pieces, and waits for a slow reader. */
export class Output {
  readonly #stream: NodeJS.WriteStream;
  #piece = "";

  constructor(stream: NodeJS.WriteStream) {
    this.#stream = stream;
    // A failed write throws its error. The stream also emits the error, which is ignored here.
    stream.on("error", () => undefined);
  }

  /** Collects text; writes pieces of about {@link PIECE_LENGTH}. @throws OutputClosed; CommandError `output` */
  async write(text: string): Promise<void> {
    this.#piece += text;
    if (this.#piece.length >= PIECE_LENGTH) await this.flush();
  }

  /**
   * Writes all of a text or nothing. Making the pieces may fail at any piece, so writing begins after the last one is
   * made.
   * @throws errors of making a piece; EspalierError `no-room` when the rest of a long text cannot be kept;
   * OutputClosed; CommandError `output`
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
        rest.write(restLength, bytes);
        restLength += bytes.length;
      }
      await this.flush();
      for (const bytes of beginning) await this.#hand(bytes);
      for (let at = 0; at < restLength; at += PIECE_LENGTH) {
        const bytes = new Uint8Array(Math.min(PIECE_LENGTH, restLength - at));
        rest!.read(at, bytes);
        await this.#hand(bytes);
      }
    } finally {
      rest?.close();
    }
  }

  async writeLine(line: string): Promise<void> {
    await this.write(`${line}\n`);
  }

  /** Writes the bytes of a line unchanged, then a newline. */
  async writeBytes(line: Uint8Array): Promise<void> {
    await this.flush();
    await this.#hand(line);
    await this.#hand("\n");
  }

  /** Writes the collected text; resolves when the stream has taken it. */
  async flush(): Promise<void> {
    const piece = this.#piece;
    this.#piece = "";
    if (piece !== "") await this.#hand(piece);
  }

  /** Resolves when the stream has taken the piece: a slow reader slows the command, and memory does not grow. */
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

/** Yields the same text as bytes, in pieces of about {@link PIECE_LENGTH}. */
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

/** Prints an answer: the value with `--json`, else the lines for people, wrapped, and then `text`, unwrapped. */
export async function print(shell: Shell, value: object, lines: Iterable<string>, text?: string) {
  if (shell.json) return printJson(shell, value);
  await printWrapped(shell, lines);
  if (text !== undefined) await printLine(shell, text);
}

/** Prints lines, broken between words where they are wider than the terminal. */
export async function printWrapped(shell: Pick<Shell, "output" | "columns">, lines: Iterable<string>) {
  for (const line of lines) await printLine(shell, wrapToColumns(line, shell.columns));
}

/** Prints one JSON value, or nothing when making it fails. */
export async function printJson({ output }: Shell, value: object): Promise<void> {
  await output.writeWhole(jsonPieces(value, "", jsonLine));
  await output.writeLine("");
}

/** Prints one step of a stream: the value as one line with `--json`, else one line for people. */
export async function printStep({ json, output }: Shell, value: object, people: () => string): Promise<void> {
  if (json) await output.writeLine(jsonLine(value));
  else await printLine({ output }, people());
}

export async function printLines(shell: Pick<Shell, "output">, lines: Iterable<string>): Promise<void> {
  for (const line of lines) await printLine(shell, line);
}

/** Prints a line for people. All are cleaned here of control sequences: ids and names come from a session's author. */
export async function printLine({ output }: Pick<Shell, "output">, line: string): Promise<void> {
  await output.writeLine(styledText(line));
}

/**
 * Returns the JSON text of a value on one line, in well-formed Unicode, since strict readers refuse escaped lone
 * surrogates. Control characters are escaped, so that the value stays the same and a terminal does not act on it.
 */
export const jsonLine = (value: unknown): string => plainJson(wellFormedJson(jsonText(value)));

/** Returns the given fields of a value, in the given order, which JSON keeps. */
export const pick = <Value, Key extends keyof Value>(value: Value, ...keys: Key[]) =>
  Object.fromEntries(keys.map((key) => [key, value[key]])) as Pick<Value, Key>;

/** Asks for one line; undefined when the signal fired, the input ended, or the person pressed Ctrl-C. */
type AskLine = (question: string, signal: AbortSignal | undefined) => Promise<string | undefined>;

/** Dialogs of extensions as lines: the question is printed, and the answer is one line. */
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

/** Asks a yes-or-no question on the terminal; every answer but yes means no. */
export const confirmOnTerminal = async (question: string): Promise<boolean> =>
  isYes(await askOnTerminal(`${question} [y/N]`, undefined));

/** Asks on the terminal of stdin and stderr. */
const askOnTerminal: AskLine = (question, signal) =>
  new Promise((resolve) => {
    const terminal = createInterface({ input: process.stdin, output: process.stderr });
    const end = (answer: string | undefined) => {
      signal?.removeEventListener("abort", close);
      terminal.off("close", close);
      resolve(answer);
      terminal.close();
    };
    const close = () => {
      // The cursor is behind the question, so the next sentence needs a new line.
      process.stderr.write("\n");
      end(undefined);
    };
    terminal.once("close", close);
    terminal.once("SIGINT", close);
    signal?.addEventListener("abort", close, { once: true });
    terminal.question(`${question} `, end);
  });
