import type { Command } from "commander";
import { existingEntry } from "../entry-reference.ts";
import { formatCount } from "../numbers.ts";
import { changing } from "../opening.ts";
import { plainLine } from "../plain-text.ts";
import { print } from "../print.ts";
import type { Shell } from "../shell.ts";

export function addHide(program: Command, shell: Shell): void {
  program
    .command("hide <session> <id>")
    .description("keep from the model what an entry says, from here on; it stays in the file")
    .option("--off", "bring it back")
    .addHelpText(
      "after",
      `
For what makes each request fail or misleads: a picture no provider takes, a result that fills the window, a wrong answer.
It is appended, so that it holds in forks and over compactions, and not on other branches; undo takes it back. What a
compaction stands for already is hidden by hiding that.

Example:
  espalier hide session.jsonl GH5p`,
    )
    .action((ref: string, reference: string, { off = false }: { off?: boolean }) =>
      changing(shell, ref, async (session) => {
        const id = existingEntry(session, reference);
        const entryId = await session.hide(id, !off);
        const isSo = entryId === null ? "already " : "";
        const reads = `the model reads ${formatCount(session.context.tokens)} tokens`;
        await print(shell, { entryId }, () => [
          off
            ? `${plainLine(id)} is ${isSo}read by the model; ${reads}.`
            : `${plainLine(id)} is ${isSo}hidden; ${reads}.`,
        ]);
      }),
    );
}
