import { CommanderError } from "commander";
import { failureOf } from "./failure.ts";
import { OutputClosed } from "./output.ts";
import { createProgram } from "./program.ts";
import { createShell, type Shell } from "./shell.ts";

/** Runs one command. Returns the exit code: 0 done, 1 the thing asked for did not happen, 2 wrong usage, 130 interrupted. */
export async function runCommandLine(parameters: readonly string[]): Promise<number> {
  const shell = createShell(parameters);
  const program = createProgram(shell);
  try {
    await program.parseAsync(parameters, { from: "user" }).catch((error: unknown) => {
      if (!namesNoCommand(error) || shell.json) throw error;
      program.outputHelp();
    });
    await shell.output.flush();
    return shell.exitCode;
  } catch (error) {
    const called = program.commands.find((command) => command.name() === program.args[0]);
    return await reportFailure(shell, error, called?.name());
  }
}

const namesNoCommand = (error: unknown): boolean =>
  error instanceof CommanderError && error.code === "commander.help";

async function reportFailure(shell: Shell, error: unknown, command?: string): Promise<number> {
  // Nobody reads what is printed any more: that is their choice, and no failure of the command.
  if (error instanceof OutputClosed) return 0;
  // Help and version are printed by then.
  const isAnswer = error instanceof CommanderError && error.exitCode === 0;
  const { code, message, exitCode } = isAnswer ? ANSWERED : failureOf(error, command);
  try {
    if (shell.json && !isAnswer) await shell.output.writeLine(JSON.stringify({ error: { code, message } }));
    await shell.output.flush();
    if (!shell.json && !isAnswer) shell.complain(message);
    return exitCode;
  } catch (outputError) {
    // Where stdout takes nothing, stderr is what is left to say why.
    if (!(outputError instanceof OutputClosed)) shell.complain(failureOf(outputError).message);
    return exitCode || 1;
  }
}

const ANSWERED = { code: "", message: "", exitCode: 0 };
