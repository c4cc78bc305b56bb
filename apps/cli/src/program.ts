import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { openStore } from "@espalier/engine";
import { Command, CommanderError, Option } from "commander";
import { addAppend, addHide, addLabel, addName, addPin } from "./commands/append.ts";
import { addFork, addMerge, addNavigate, addUndo } from "./commands/branch.ts";
import { addCompact, addSummarize } from "./commands/compact.ts";
import { addDiff, addPolicies, addReplay, addStats } from "./commands/compare.ts";
import { addCompletion } from "./commands/completion.ts";
import { addContext, addShow } from "./commands/context.ts";
import { addHistory, addList, addSearch } from "./commands/find.ts";
import { addChat, addDemo, addOpen, addRun, addServe } from "./commands/open.ts";
import { addConfig, addDelete, addDoctor, addStore, addTrust } from "./commands/store.ts";
import { addCopy, addExport, addImport } from "./commands/transfer.ts";
import { addTree } from "./commands/tree.ts";
import { failureOf } from "./failure.ts";
import { createShell, OutputClosed, type Shell } from "./shell.ts";

/** The command line: every command is a file in `commands/` and a line here, in the order of the help. */
const COMMANDS = [
  addOpen,
  addTree,
  addContext,
  addShow,
  addList,
  addSearch,
  addHistory,
  addDiff,
  addStats,
  addAppend,
  addNavigate,
  addUndo,
  addFork,
  addLabel,
  addName,
  addPin,
  addHide,
  addReplay,
  addCompact,
  addPolicies,
  addMerge,
  addRun,
  addSummarize,
  addImport,
  addExport,
  addServe,
  addChat,
  addConfig,
  addTrust,
  addDoctor,
  addCopy,
  addStore,
  addDelete,
  addDemo,
  addCompletion,
];

function createProgram(shell: Shell): Command {
  const version = process.env["ESPALIER_VERSION"] ?? "development";
  const program = new Command("espalier")
    .description("Walk, branch, fork and replay the sessions of LLM agents.")
    .usage("<command> [arguments] [options]")
    .version(shell.json ? JSON.stringify({ version }) : version, "-V, --version", "print the version")
    .helpOption("-h, --help", "explain a command")
    .helpCommand("help [command]", "explain a command")
    .option("--json", "print JSON and nothing else")
    .addOption(
      new Option("--extension <file>", "load an extension for this call; repeatable").argParser(
        (file: string, files: string[] = []) => [...files, resolve(file)],
      ),
    )
    .addOption(
      new Option("--on-busy <choice>", "where another process writes the session").choices([
        "error",
        "read-only",
        "fork",
        "share",
      ]),
    )
    .option("--trace", "say on stderr how much of a session's file was read to open it")
    .option("--summarizer <name>", "who writes summaries: extractive, anthropic or anthropic:MODEL")
    .option("--fallback", "when a summarizer that was named fails, let the extractive one step in")
    .addOption(
      new Option("--store <address>", "where sessions are: postgres://… instead of files").env(
        "ESPALIER_STORE",
      ),
    )
    .hook("preAction", async () => {
      shell.globals = program.opts();
      const { store } = shell.globals;
      shell.store = store === undefined ? undefined : await openStore(store);
    })
    .exitOverride()
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({
      writeOut: (text) => void shell.output.write(text),
      // Wrong usage is told once, where all failures are.
      writeErr: () => undefined,
      getOutHasColors: () => shell.colours.isColorSupported,
    })
    .addHelpText("after", GENERAL);
  for (const add of COMMANDS) add(program, shell);
  return program;
}

const GENERAL = `
<session> is a file, or the id of a session below ~/.espalier/sessions (its beginning is enough); with --store it is the
name of a session in that store. An address with a password is better kept in ESPALIER_STORE than typed.
<id> names an entry: its id, the beginning of it (at least 4 characters), its label (or @label),
\`leaf\` for where the session goes on, \`start\` for the place before its first entry.

With --json a failure is {"error":{"code","message"}}. Exit code: 0 done, 1 it did not happen, 2 wrong usage.`;

/** Runs one command. Returns the exit code: 0 done, 1 the thing asked for did not happen, 2 wrong usage, 130 interrupted. */
export async function runCommandLine(parameters: readonly string[]): Promise<number> {
  const shell = createShell(parameters);
  // Stdout is the command's answer: what an extension says on the console goes beside it.
  Object.assign(console, { _stdout: process.stderr });
  const program = createProgram(shell);
  process.once("uncaughtException", (error) => void endByStray(shell, error));
  try {
    await program.parseAsync(parameters, { from: "user" }).catch((error: unknown) => {
      if (!namesNoCommand(error) || program.args.length > 1 || shell.json) throw error;
      program.outputHelp();
    });
    await shell.output.flush();
    return shell.exitCode;
  } catch (error) {
    const called = program.commands.find((command) => command.name() === program.args[0]);
    return await reportFailure(shell, called ? error : meantAsCommand(error, program.args), called?.name());
  }
}

/** What is no command goes to the one that opens the terminal, which would complain of its arguments. */
function meantAsCommand(error: unknown, [name, ...others]: readonly string[]): unknown {
  const isUsage = error instanceof CommanderError && error.exitCode !== 0;
  if (!isUsage || name === undefined || others.length === 0 || existsSync(name)) return error;
  if (name === "help") return meantAsCommand(error, [...others, ""]);
  return new CommanderError(2, "commander.unknownCommand", `error: unknown command '${name}'`);
}

/** An error that nobody waited for, such as one in a timer of an extension: what is under way cannot be trusted any more. */
async function endByStray(shell: Shell, error: Error): Promise<void> {
  const { message, stack = "" } = error ?? {};
  const place = /^ +at (?:.*\()?(.*?)\)?$/m.exec(stack)?.[1] ?? "an unknown place";
  const failure = new Error(
    `The command was ended by an error that nothing waited for: ${message ?? String(error)} (${place}). An extension that starts work of its own should catch what fails in it.`,
  );
  const report = async () => process.exit(await reportFailure(shell, failure));
  if (shell.json) return report();
  // The terminal's screen is left first: what stands on it is not seen any more.
  process.once("exit", () => void shell.complain(failureOf(failure).message));
  process.exit(1);
}

const namesNoCommand = (error: unknown): boolean =>
  error instanceof CommanderError && error.code === "commander.help";

async function reportFailure(shell: Shell, error: unknown, command?: string): Promise<number> {
  // Nobody reads what is printed any more: that is their choice, and no failure of the command.
  if (error instanceof OutputClosed) return 0;
  // Help and version are printed by then.
  const isAnswer = error instanceof CommanderError && error.exitCode === 0;
  const { exitCode, ...failure } = isAnswer ? ANSWERED : failureOf(error, command);
  try {
    if (shell.json && !isAnswer) await shell.output.writeLine(JSON.stringify({ error: failure }));
    await shell.output.flush();
    if (!shell.json && !isAnswer) shell.complain(failure.message);
    return exitCode;
  } catch (outputError) {
    // Where stdout takes nothing, stderr is what is left to say why.
    if (!(outputError instanceof OutputClosed)) shell.complain(failureOf(outputError).message);
    return exitCode || 1;
  }
}

const ANSWERED = { code: "", message: "", exitCode: 0 };
