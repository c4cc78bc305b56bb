import { existsSync } from "node:fs";
import { type Command, CommanderError } from "commander";
import { CommandError } from "../failure.ts";
import { refuseForeign } from "../foreign-session.ts";
import { sessionNamed, storeInUse } from "../opening.ts";
import { askAboutProject } from "../settings-in-force.ts";
import type { Shell } from "../shell.ts";

interface OpenCommandOptions {
  ascii?: boolean;
}

/** The terminal's interface, which is also what `espalier` and `espalier <session>` mean. */
export function addOpen(program: Command, shell: Shell): void {
  program
    .command("open [session]", { isDefault: true })
    .description("find, read and change sessions on the terminal; `espalier` alone does the same")
    .option("--ascii", "draw with - and | instead of lines")
    .addHelpText("after", "\nExamples:\n  espalier\n  espalier session.jsonl\n  espalier open 3kq7 --ascii")
    .action(async (ref: string | undefined, { ascii = false }: OpenCommandOptions) => {
      const isTerminal = process.stdin.isTTY === true && process.stdout.isTTY === true && !shell.json;
      const file = ref === undefined ? undefined : await fileOf(shell, ref, program.args[0] === "open");
      // What to print without a terminal is the same as for no command at all.
      if (ref === undefined && !isTerminal) throw new CommanderError(2, "commander.help", "(outputHelp)");
      if (!isTerminal)
        throw new CommandError(
          "usage",
          `There is no terminal to open ${ref} on; \`espalier tree ${ref}\` prints it.`,
        );
      const { openTerminal } = await import("../terminal/open-terminal.ts");
      await askAboutProject(shell);
      await openTerminal(shell, { ascii, ...(file === undefined ? {} : { ref: file }) });
    });
}

/** What a session is kept under. A word that is none was meant as a command, unless somebody said that it is one. */
async function fileOf(shell: Shell, ref: string, isNamed: boolean): Promise<string> {
  const isFile = !shell.store && existsSync(ref);
  try {
    const log = await storeInUse(shell).open(await sessionNamed(shell.store, ref), "read");
    await log.close();
    if (isFile && !log.header) await refuseForeign(ref);
    return log.ref;
  } catch (error) {
    if (isFile) throw error;
    if (isNamed || ref.includes("/")) throw error;
    throw new CommanderError(2, "commander.unknownCommand", `error: unknown command '${ref}'`);
  }
}
