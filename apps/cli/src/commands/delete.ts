import { createInterface } from "node:readline/promises";
import { deleteSession } from "@espalier/engine";
import type { Command } from "commander";
import { CommandError } from "../failure.ts";
import { formatMany } from "../numbers.ts";
import { reading, storeOf } from "../opening.ts";
import { plainLine } from "../plain-text.ts";
import { print } from "../print.ts";
import type { Shell } from "../shell.ts";

export function addDelete(program: Command, shell: Shell): void {
  program
    .command("delete <session>")
    .description("remove a session's file and all that lies beside it; it cannot be brought back")
    .option("--yes", "do not ask")
    .addHelpText("after", "\nExample:\n  espalier delete session.jsonl --yes")
    .action(async (ref: string, { yes = false }: { yes?: boolean }) => {
      if (!yes) await confirm(shell, ref);
      const deleted = await deleteSession(ref, storeOf(shell));
      await print(shell, { deleted }, () => deleted.map((file) => `Removed ${file}`));
    });
}

async function confirm(shell: Shell, ref: string): Promise<void> {
  if (!shell.interactive)
    throw new CommandError("confirm", "A deleted session cannot be brought back; say --yes to delete it.");
  const question = await reading(shell, ref, async ({ file, name, tree }) =>
    plainLine(
      `Delete ${file}${name ? ` (${name})` : ""} with ${formatMany(tree.length, "entry", "entries")}? [y/N]`,
    ),
  );
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const answer = await terminal.question(`${question} `);
    if (!/^y(es)?$/i.test(answer.trim())) throw new CommandError("confirm", "Nothing was deleted.");
  } finally {
    terminal.close();
  }
}
