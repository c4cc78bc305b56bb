import { Command } from "commander";
import { addContext } from "./commands/context.ts";
import { addShow } from "./commands/show.ts";
import { addTree } from "./commands/tree.ts";
import type { Shell } from "./shell.ts";

/** The command line: every command is a file in `commands/` and a line here, in the order of the help. */
const COMMANDS = [addTree, addContext, addShow];

export function createProgram(shell: Shell): Command {
  const program = new Command("espalier")
    .description("Walk, branch, fork and replay the sessions of LLM agents.")
    .usage("<command> [arguments] [options]")
    .version(process.env["ESPALIER_VERSION"] ?? "development", "-V, --version", "print the version")
    .helpOption("-h, --help", "explain a command")
    .helpCommand("help [command]", "explain a command")
    .option("--json", "print JSON and nothing else")
    .exitOverride()
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({
      writeOut: (text) => void shell.output.write(text),
      // Wrong usage is told once, where all failures are.
      writeErr: () => undefined,
      getOutHasColors: () => shell.colours.isColorSupported,
    })
    .addHelpText("after", GENERAL);
  program.action(() => program.help());
  for (const add of COMMANDS) add(program, shell);
  return program;
}

const GENERAL = `
<session> is a file, or the id of a session below ~/.espalier/sessions (its beginning is enough).
<id> names an entry: its id, the beginning of it (at least 4 characters), its label (or @label),
\`leaf\` for where the session goes on, \`start\` for the place before its first entry.

With --json a failure is {"error":{"code","message"}}. Exit code: 0 done, 1 it did not happen, 2 wrong usage.`;
