import type { ExtensionDialogs, OnBusy } from "@espalier/engine";
import type { SessionStore } from "@espalier/session-tree";
import picocolors from "picocolors";
import { askOnTerminal, lineDialogs } from "./line-dialogs.ts";
import { Output } from "./output.ts";
import { plainLine } from "./plain-text.ts";

export type Colours = ReturnType<typeof picocolors.createColors>;

/** Options that stand with any command. */
interface GlobalOptions {
  /** Files of extensions for this call. */
  extension?: string[];
  /** What to do where somebody else writes the session. */
  onBusy?: OnBusy;
  /** Who writes summaries: `extractive`, `anthropic`, `anthropic:<model>`. */
  summarizer?: string;
  /** Whether the extractive summarizer steps in for one that was named. */
  fallback?: boolean;
  /** Whether to say how much of a session's file was read to open it. */
  trace?: boolean;
  /** The address of the store that sessions are in. May hold a password: it is printed nowhere. */
  store?: string;
}

/** What a command is given beside its arguments: where to print, how, and from where to read. */
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
  /** 1 when the command ended well and found that what was asked is not so. */
  exitCode: number;
  /** Known when the command runs. */
  globals: GlobalOptions;
  /** The store of `--store`; undefined where sessions are files. Known when the command runs. */
  store: SessionStore | undefined;
  /** Answers about projects that changed since they were trusted, by folder: each is asked about once. */
  readonly trustAnswers: Map<string, Promise<boolean>>;
  /** Tells people one sentence, beside the output. */
  complain(sentence: string): void;
  /** The same, for a sentence that more than one step of a command may have to tell. */
  complainOnce(sentence: string): void;
  /** Dialogs for extensions; undefined where no person can be asked. */
  readonly dialogs: ExtensionDialogs | undefined;
  /** Shows the status that an extension keeps under a key. Default: it is not shown. */
  setStatus?(key: string, text: string | undefined): void;
}

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
    columns: stdout.isTTY ? stdout.columns : Number.POSITIVE_INFINITY,
    progressColumns: stderr.isTTY ? stderr.columns : 0,
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
