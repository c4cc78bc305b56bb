import type { Command } from "commander";
import { existingEntry } from "../entry-reference.ts";
import { appendingBeside } from "../opening.ts";
import { plainLine } from "../plain-text.ts";
import { print } from "../print.ts";
import type { Shell } from "../shell.ts";

export function addLabel(program: Command, shell: Shell): void {
  program
    .command("label <session> <id> [text]")
    .description("give an entry a label; without a text, take it away")
    .addHelpText("after", '\nExample:\n  espalier label session.jsonl leaf "tests pass"')
    .action((ref: string, reference: string, text: string | undefined) =>
      appendingBeside(shell, ref, async (session) => {
        const id = existingEntry(session, reference);
        const entryId = await session.label(id, text);
        const label = session.getLabel(id);
        await print(shell, { entryId }, () => [
          label === undefined
            ? `${plainLine(id)} has no label any more.`
            : `${plainLine(id)} is labelled ${plainLine(label)}.`,
        ]);
      }),
    );
}
