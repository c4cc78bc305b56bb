// Separate from main.ts: main.ts ends the process, and tests run commands in their own process.
import { existsSync } from "node:fs";
import { openStore } from "@espalier/engine";
import { Command, CommanderError } from "commander";
import { changeCommands } from "./commands/changes.ts";
import { policies, summaryCommands } from "./commands/compact.ts";
import { context, history, show } from "./commands/context.ts";
import { costCommands } from "./commands/costs.ts";
import { demo } from "./commands/demo.ts";
import { evaluation } from "./commands/evaluate.ts";
import { exportCommands } from "./commands/export.ts";
import { agentCommands, interactiveCommands } from "./commands/interactive.ts";
import { sessionsCommands } from "./commands/sessions.ts";
import { setupCommands } from "./commands/setup.ts";
import { transferCommands } from "./commands/transfer.ts";
import { diff, replay, tree } from "./commands/tree.ts";
import { failureOf, unknownCommand } from "./failure.ts";
import { globalOptions, optionOf } from "./options.ts";
import { consoleTo, createShell, OutputClosed, type Shell } from "./shell.ts";
import { wrapToColumns } from "./text.ts";

/** All commands, in the order of the help, under their headings. */
const COMMANDS = {
  "Work with a session:": [...interactiveCommands, demo],
  "Read a session:": [tree, context, show, diff, ...costCommands, policies, replay, history, evaluation],
  "Change a session:": [...changeCommands, ...summaryCommands],
  "Find and keep sessions:": [...sessionsCommands, ...setupCommands],
  "Import and export:": [...transferCommands, ...exportCommands],
  "Inside other agents:": agentCommands,
} as const;

function createProgram(shell: Shell): Command {
  const version = process.env["ESPALIER_VERSION"] ?? "development";
  const program = new Command("espalier")
    .description("Read, branch, fork and replay the sessions of LLM agents.")
    .usage("<command> [arguments] [options]")
    .version(shell.json ? JSON.stringify({ version }) : version, "-V, --version", "print the version")
    .helpOption("-h, --help", "explain a command")
    .helpCommand("help [command]", "explain a command")
    .hook("preAction", async () => {
      shell.globals = program.opts();
      const { store } = shell.globals;
      shell.store = store === undefined ? undefined : await openStore(store);
    })
    .exitOverride()
    .configureHelp({ minWidthToWrap: NARROWEST_HELP })
    .configureOutput({
      writeOut: (text) => void shell.output.write(inColumns(text, shell.columns)),
      // Usage errors are reported in one place with all other failures.
      writeErr: () => undefined,
      getOutHasColors: () => shell.colours.isColorSupported,
    })
    .addHelpText("after", GENERAL);
  for (const option of globalOptions) program.addOption(optionOf(option));
  for (const [heading, commands] of Object.entries(COMMANDS)) {
    program.commandsGroup(heading);
    for (const add of commands) add(program, shell);
  }
  return program;
}

/** Width in columns below which descriptions in the help are not wrapped. */
const NARROWEST_HELP = 20;

/** Wraps paragraphs of a help text, not indented lines: descriptions are already wrapped, and examples are copied. */
function inColumns(help: string, columns: number): string {
  if (!Number.isFinite(columns)) return help;
  const paragraphs = help.replace(/(?<=\S)\n(?=\S)/g, " ").split("\n");
  return paragraphs.map((line) => (line.startsWith(" ") ? line : wrapToColumns(line, columns))).join("\n");
}

const GENERAL = `
<session> is a file, the id of a session below ~/.espalier/sessions (its beginning is enough), or its title in a list.
With --store it is also the name of a session in that store. Put an address with a password in ESPALIER_STORE, not on the
command line.

<id> names an entry: its id, the beginning of its id (at least 4 characters), its label (or @label),
\`leaf\` for the entry that the session continues from, \`start\` for the position before its first entry.

With --json an error is {"error":{"code","message"}}. Exit code: 0 success, 1 failure, 2 wrong usage.`;

/**
 * Runs one command. Returns the exit code: 0 success, 1 failure or a negative answer (such as a search without hits), 2
 * wrong usage, 130 interrupted.
 */
export async function runCommandLine(parameters: readonly string[]): Promise<number> {
  const shell = createShell(parameters);
  consoleTo();
  const program = createProgram(shell);
  process.once("uncaughtException", (error) => void endByStray(shell, error));
  try {
    await program.parseAsync(parameters, { from: "user" }).catch((error: unknown) => {
      const namesNone = error instanceof CommanderError && error.code === "commander.help";
      if (!namesNone || program.args.length > 1 || shell.json) throw error;
      program.outputHelp();
    });
    await shell.output.flush();
    return shell.exitCode;
  } catch (error) {
    const called = program.commands.find((command) => command.name() === program.args[0]);
    const named = called ? withChoices(error, called) : meantAsCommand(error, program);
    return await reportFailure(shell, named, called?.name());
  }
}

/** Adds the choices of an option to the error for a missing mandatory option. Returns every other error unchanged. */
function withChoices(error: unknown, command: Command): unknown {
  if (!(error instanceof CommanderError) || error.code !== "commander.missingMandatoryOptionValue")
    return error;
  const missing = command.options.find(({ flags }) => error.message.includes(`'${flags}'`));
  if (!missing?.argChoices) return error;
  const choices = missing.argChoices.join(", ");
  return new CommanderError(error.exitCode, error.code, `${error.message}\nAllowed choices are ${choices}.`);
}

/**
 * Returns the error for an unknown command if a usage error has several words, of which the first is no file: `open` is
 * the default command and takes one session, so this word is probably a mistyped name. Returns every other error
 * unchanged.
 */
function meantAsCommand(error: unknown, program: Command, words: readonly string[] = program.args): unknown {
  const [name, ...others] = words;
  const isUsage = error instanceof CommanderError && error.exitCode !== 0;
  if (!isUsage || name === undefined || others.length === 0 || existsSync(name)) return error;
  if (name === "help") return meantAsCommand(error, program, [...others, ""]);
  return unknownCommand(name, program);
}

/** Reports an uncaught error, such as one in a timer of an extension, and ends the process with exit code 1. */
async function endByStray(shell: Shell, error: Error): Promise<void> {
  const { message, stack = "" } = error ?? {};
  const place = /^ +at (?:.*\()?(.*?)\)?$/m.exec(stack)?.[1] ?? "an unknown place";
  const failure = new Error(
    `An uncaught error ended the command: ${message ?? String(error)} (${place}). An extension must catch the errors of the work that it starts.`,
  );
  const report = async () => process.exit(await reportFailure(shell, failure));
  if (shell.json) return report();
  // The error is printed after the terminal has left its full screen, where it would disappear.
  process.once("exit", () => void shell.complain(failureOf(failure).message));
  process.exit(1);
}

async function reportFailure(shell: Shell, error: unknown, command?: string): Promise<number> {
  // The reader closed the pipe, which is not a failure of the command.
  if (error instanceof OutputClosed) return 0;
  // Help and version are already printed.
  const isAnswer = error instanceof CommanderError && error.exitCode === 0;
  const { exitCode, ...failure } = isAnswer ? ANSWERED : failureOf(error, command);
  try {
    if (shell.json && !isAnswer) await shell.output.writeLine(JSON.stringify({ error: failure }));
    await shell.output.flush();
    if (!shell.json && !isAnswer) shell.complain(failure.message);
    return exitCode;
  } catch (outputError) {
    // Stdout is not writable, so stderr gets the reason.
    if (!(outputError instanceof OutputClosed)) shell.complain(failureOf(outputError).message);
    return exitCode || 1;
  }
}

const ANSWERED = { code: "", message: "", exitCode: 0 };
