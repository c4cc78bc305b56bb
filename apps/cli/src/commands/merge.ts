import type { Command } from "commander";
import { existingEntry } from "../entry-reference.ts";
import { interruptible } from "../interruptible.ts";
import { summarizing } from "../opening.ts";
import { plainLine } from "../plain-text.ts";
import { print } from "../print.ts";
import type { Shell } from "../shell.ts";

interface MergeOptions {
  into?: string;
  instructions?: string;
}

export function addMerge(program: Command, shell: Shell): void {
  program
    .command("merge <session> <from>")
    .description("bring the conclusion of another branch here, as a summary; both branches stay")
    .option("--into <id>", "to this entry instead of the leaf")
    .option("--instructions <text>", "what the summary shall attend to")
    .addHelpText("after", "\nExample:\n  espalier merge session.jsonl http-cache-dead-end")
    .action((ref: string, from: string, { into, ...options }: MergeOptions) =>
      summarizing(shell, ref, async (session) => {
        const fromId = existingEntry(session, from);
        const place = into === undefined ? {} : { into: existingEntry(session, into) };
        const merged = await interruptible(shell, "The merge", (act) =>
          session.merge(fromId, { ...options, ...place, ...act }),
        );
        await print(shell, merged, () => [
          `The conclusion of the branch of ${plainLine(fromId)} stands in ${plainLine(merged.entryId)}; the leaf is ${plainLine(merged.leafId ?? "before the first entry")}.`,
        ]);
      }),
    );
}
