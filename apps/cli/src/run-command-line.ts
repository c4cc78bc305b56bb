import { existsSync } from "node:fs";
import { CommanderError } from "commander";
import { failureOf } from "./failure.ts";
import { OutputClosed } from "./output.ts";
import { createProgram } from "./program.ts";
import { createShell, type Shell } from "./shell.ts";

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
