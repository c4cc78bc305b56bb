import type { Command } from "commander";
import { summarizing } from "../opening.ts";
import { plainLine } from "../plain-text.ts";
import { print } from "../print.ts";
import type { Shell } from "../shell.ts";

export function addRun(program: Command, shell: Shell): void {
  program
    .command("run <session> [command] [args...]")
    .description("run a command that an extension registers; without one, list them")
    .addHelpText(
      "after",
      `
Examples:
  espalier run session.jsonl --extension bookmark.ts
  espalier run session.jsonl bookmark "before the cache" --extension bookmark.ts`,
    )
    .action((ref: string, name: string | undefined, args: string[]) =>
      summarizing(shell, ref, async (session) => {
        if (name === undefined) {
          const commands = session.commands.map(({ name, description, owner }) => ({
            name,
            description,
            owner,
          }));
          await print(shell, { commands }, () =>
            commands.length === 0
              ? ["No extension registers a command; name its file with --extension."]
              : commands.map(({ name, description }) => plainLine(`${name.padEnd(20)} ${description}`)),
          );
          return;
        }
        await session.runCommand(name, args.join(" "));
        await print(shell, { command: name, leafId: session.leafId }, () => []);
      }),
    );
}
