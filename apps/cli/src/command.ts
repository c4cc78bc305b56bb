import type { Session } from "@espalier/engine";
import { type Argument, type Command, Option } from "commander";
import { type SessionUse, withSession } from "./opening.ts";
import { print, type Shell } from "./shell.ts";

/** Adds a command to the program. */
export type AddCommand = (program: Command, shell: Shell) => void;

/**
 * Answer of a command: one JSON value for programs, lines for people. A generator of lines runs only when they are
 * printed.
 */
export interface Answer {
  value: object;
  lines: Iterable<string>;
  /**
   * Text to copy, after the lines: of the session, or a command. It is printed as it is, while lines are broken at the
   * width of the terminal.
   */
  text?: string;
}

/** Flags and description, then the choices or the parser of the option. An `Option` is used for everything else. */
export type OptionShape =
  | readonly [flags: string, description: string, rest?: readonly string[] | ((text: string) => unknown)]
  | Option;

/** Result that is printed after the command; undefined when the command has already printed everything. */
type Running = Promise<Answer | undefined> | Promise<void>;

interface Help {
  /** Name and arguments as the help shows them: `pin <session> <id>`. */
  usage: string;
  description: string;
  /** The argument, if it has choices; `usage` is only the name then. */
  argument?: Argument;
  options?: readonly OptionShape[];
  /** Paragraphs between the options and the examples. */
  notes?: string;
  examples: readonly string[];
  /** True for the command that runs when the user names no command. */
  isDefault?: boolean;
}

export interface Call<Options> {
  shell: Shell;
  options: Options;
  program: Command;
}

type Arguments = (string | undefined | string[])[];

/** A command as data, with the function that runs it. */
export function command<Options extends object, Given extends Arguments>(
  shape: Help & { run(call: Call<Options>, ...given: Given): Running },
): AddCommand {
  const { usage, description, argument, options = [], notes, examples, isDefault = false } = shape;
  return (program, shell) => {
    const added = program.command(usage, { isDefault }).description(description);
    if (argument) added.addArgument(argument);
    for (const option of options) added.addOption(optionOf(option));
    const listed = examples.map((example) => `\n  ${example}`).join("");
    const heading = examples.length === 1 ? "Example:" : "Examples:";
    added.addHelpText("after", `\n${notes === undefined ? "" : `${notes}\n\n`}${heading}${listed}`);
    added.action(async (...words: unknown[]) => {
      const given = words.slice(0, -2) as Given;
      const answer = await shape.run({ shell, options: words.at(-2) as Options, program }, ...given);
      if (answer) await print(shell, answer.value, answer.lines, answer.text);
    });
  };
}

export interface SessionCall<Options> extends Call<Options> {
  session: Session;
  /** The session as the user named it. */
  ref: string;
}

/** A command whose first argument is `<session>`. The session is open while the command runs. */
export function sessionCommand<Options extends object, Given extends Arguments>(
  shape: Help & {
    use: SessionUse | ((options: Options) => SessionUse);
    /** True when the context at the leaf is enough, so that the whole tree is not loaded. Default: false. */
    isContextEnough?: (options: Options, shell: Shell) => boolean;
    run(call: SessionCall<Options>, ...given: Given): Running;
  },
): AddCommand {
  const { use, isContextEnough, run, ...help } = shape;
  return command<Options, [string, ...Given]>({
    ...help,
    run(call, ref, ...given) {
      const { shell, options } = call;
      const opened = typeof use === "function" ? use(options) : use;
      const runAndPrint = async (session: Session) => {
        const answer = await run({ ...call, session, ref }, ...given);
        // The lines may read the session, so they are printed while it is open.
        if (answer) await print(shell, answer.value, answer.lines, answer.text);
      };
      return withSession(shell, opened, ref, runAndPrint, isContextEnough?.(options, shell));
    },
  });
}

function optionOf(shape: OptionShape): Option {
  if (shape instanceof Option) return shape;
  const [flags, description, rest] = shape;
  const option = new Option(flags, description);
  if (typeof rest === "function") return option.argParser(rest);
  return rest ? option.choices(rest) : option;
}
