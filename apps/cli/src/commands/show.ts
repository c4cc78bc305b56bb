import { DAMAGED } from "@espalier/session-tree";
import type { Command } from "commander";
import { existingEntry } from "../entry-reference.ts";
import { CommandError } from "../failure.ts";
import { reading } from "../opening.ts";
import { printLines } from "../print.ts";
import type { Shell } from "../shell.ts";
import { viewEntry } from "../views/view-entry.ts";

export function addShow(program: Command, shell: Shell): void {
  program
    .command("show <session> <id>")
    .description("show one entry whole; with --json its line as it is on disk")
    .addHelpText(
      "after",
      `
Examples:
  espalier show session.jsonl before-cache
  espalier show session.jsonl vPdD --json | jq .message.usage`,
    )
    .action((ref: string, reference: string) =>
      reading(shell, ref, async (session) => {
        const id = existingEntry(session, reference);
        const { tree } = session;
        const row = tree.row(id);
        const entry = tree.entryAt(row);
        if (entry.type === DAMAGED) {
          throw new CommandError(
            "damaged",
            `The line of ${id} cannot be read any more; \`espalier doctor ${ref}\` says where it is.`,
          );
        }
        if (!shell.json) await printLines(shell, viewEntry(session, entry, shell));
        else await shell.output.writeBytes(tree.bytesAt(row));
      }),
    );
}
