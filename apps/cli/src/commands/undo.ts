import type { Command } from "commander";
import { changing } from "../opening.ts";
import { print } from "../print.ts";
import type { Shell } from "../shell.ts";
import { viewArrival } from "../views/view-arrival.ts";

export function addUndo(program: Command, shell: Shell): void {
  program
    .command("undo <session>")
    .description("take back the newest prompt, navigation, compaction or hiding; again, the one before")
    .addHelpText(
      "after",
      `
Nothing is removed: the leaf moves back, and what was taken back stays as a branch. A compaction counts when somebody asked
for it, not when it came because the context was long.

Example:
  espalier undo session.jsonl`,
    )
    .action((ref: string) =>
      changing(shell, ref, async (session) => {
        const arrival = await session.undo();
        await print(shell, arrival, () => viewArrival(session, arrival));
      }),
    );
}
