import type { Command } from "commander";
import { appendingBeside } from "../opening.ts";
import { plainLine } from "../plain-text.ts";
import { print } from "../print.ts";
import type { Shell } from "../shell.ts";

export function addName(program: Command, shell: Shell): void {
  program
    .command("name <session> <text>")
    .description("give the session a name")
    .addHelpText("after", '\nExample:\n  espalier name session.jsonl "Offline tide tables"')
    .action((ref: string, text: string) =>
      appendingBeside(shell, ref, async (session) => {
        const entryId = await session.rename(text);
        await print(shell, { entryId }, () => [`The session is named ${plainLine(session.name ?? "")}.`]);
      }),
    );
}
