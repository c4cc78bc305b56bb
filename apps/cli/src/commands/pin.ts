import type { Command } from "commander";
import { existingEntry } from "../entry-reference.ts";
import { appendingBeside } from "../opening.ts";
import { plainLine } from "../plain-text.ts";
import { print } from "../print.ts";
import type { Shell } from "../shell.ts";

export function addPin(program: Command, shell: Shell): void {
  program
    .command("pin <session> <id>")
    .description("keep an entry in the context, word for word, whatever is compacted")
    .option("--off", "no longer")
    .addHelpText("after", "\nExample:\n  espalier pin session.jsonl GH5p")
    .action((ref: string, reference: string, { off = false }: { off?: boolean }) =>
      appendingBeside(shell, ref, async (session) => {
        const id = existingEntry(session, reference);
        const entryId = await session.pin(id, !off);
        await print(shell, { entryId }, () => [
          off
            ? `${plainLine(id)} is no longer pinned.`
            : `${plainLine(id)} stays in the context over compactions.`,
        ]);
      }),
    );
}
