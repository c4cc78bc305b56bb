import type { Session } from "@espalier/engine";
import { Argument, type Command } from "commander";
import { type SessionUse, withSession } from "./opening.ts";
import { globalOptions, type OptionShape, type OptionsOf, optionOf } from "./options.ts";
import { print, type Shell } from "./shell.ts";

/** Adds a command to the program. */
export type AddCommand = (program: Command, shell: Shell) => void;

/** Answer of a command: a JSON value for programs, lines for people. A generator of lines runs when they are drawn. */
export interface Answer {
  value: object;
  lines: Iterable<string>;
  /**
   * Text to copy, such as a message or a command. It is printed after `lines`, not with `--json`; unlike `lines`, it is
   * not wrapped at the terminal's width.
   */
  text?: string;
}

type ArgumentsOf<Usage> = Usage extends `${infer Word} ${infer Rest}`
  ? [...ArgumentsOf<Word>, ...ArgumentsOf<Rest>]
  : Usage extends `[${string}...]`
    ? [string[]]
    : Usage extends `[${string}]`
      ? [string | undefined]
      : Usage extends `<${string}>`
        ? [string]
        : [];

/** Result that is printed after the command; undefined when the command has already printed everything. */
type Running = Promise<Answer | undefined> | Promise<void>;

interface Help<Usage, Options> {
  /** Name and arguments as the help shows them: `pin <session> <id>`. */
  usage: Usage;
  description: string;
  /** Description and choices of the only argument. */
  argument?: readonly [description: string, choices: readonly string[]];
  options?: Options;
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

/** A command as data, with the function that runs it. */
export const command = <const Usage extends string, const Options extends readonly OptionShape[] = []>({
  run,
  ...help
}: Help<Usage, Options> & {
  run(call: Call<OptionsOf<Options>>, ...given: ArgumentsOf<Usage>): Running;
}): AddCommand => declared(help, (call, given: ArgumentsOf<Usage>) => run(call, ...given));

interface SessionCall<Options> extends Call<Options> {
  session: Session;
  /** The session as the user named it. */
  ref: string;
}

/** A command whose first argument is `<session>`. The session stays open until the answer is printed. */
export function sessionCommand<
  const Usage extends `${string} <session>${string}`,
  const Options extends readonly OptionShape[] = [],
>({
  use,
  isContextEnough,
  run,
  ...help
}: Help<Usage, Options> & {
  use: SessionUse | ((options: OptionsOf<Options>) => SessionUse);
  /** True when the context at the leaf is enough, so that the whole tree is not loaded. Default: false. */
  isContextEnough?: (options: OptionsOf<Options>, shell: Shell) => boolean;
  run(call: SessionCall<OptionsOf<Options>>, ...given: Tail<ArgumentsOf<Usage>>): Running;
}): AddCommand {
  return declared(help, (call, [ref, ...given]: [string, ...Tail<ArgumentsOf<Usage>>]) => {
    const { shell, options } = call;
    const opened = typeof use === "function" ? use(options) : use;
    const runAndPrint = async (session: Session) => {
      const answer = await run({ ...call, session, ref }, ...given);
      // The lines may read the session, so they are printed while it is open.
      if (answer) await print(shell, answer.value, answer.lines, answer.text);
    };
    return withSession(shell, opened, ref, runAndPrint, isContextEnough?.(options, shell));
  });
}

type Tail<Words extends unknown[]> = Words extends [unknown, ...infer Rest] ? Rest : [];

const GLOBALS = `Options of all commands (see \`espalier --help\`): ${globalOptions.map(([flags]) => flags.split(" ")[0]).join(", ")}.`;

function declared<const Options extends readonly OptionShape[], Given extends unknown[]>(
  { usage, description, argument, options, notes, examples, isDefault = false }: Help<string, Options>,
  run: (call: Call<OptionsOf<Options>>, given: Given) => Running,
): AddCommand {
  return (program, shell) => {
    const [name = "", ...rest] = usage.split(" ");
    const added = program.command(argument ? name : usage, { isDefault }).description(description);
    if (argument) added.addArgument(new Argument(rest.join(" "), argument[0]).choices(argument[1]));
    for (const option of options ?? []) added.addOption(optionOf(option));
    const listed = examples.map((example) => `\n  ${example}`).join("");
    const heading = examples.length === 1 ? "Example:" : "Examples:";
    added.addHelpText(
      "after",
      `\n${notes === undefined ? "" : `${notes}\n\n`}${heading}${listed}\n\n${GLOBALS}`,
    );
    added.action(async (...words: unknown[]) => {
      const options = words.at(-2) as OptionsOf<Options>;
      const answer = await run({ shell, options, program }, words.slice(0, -2) as Given);
      if (answer) await print(shell, answer.value, answer.lines, answer.text);
    });
  };
}
