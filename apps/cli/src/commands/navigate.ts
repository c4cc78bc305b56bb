import type { Command } from "commander";
import { entryNamed } from "../entry-reference.ts";
import { interruptible } from "../interruptible.ts";
import { changing, summarizing } from "../opening.ts";
import { print } from "../print.ts";
import type { Shell } from "../shell.ts";
import { viewArrival } from "../views/view-arrival.ts";

interface NavigateOptions {
  summarize?: boolean;
  instructions?: string;
  label?: string;
}

export function addNavigate(program: Command, shell: Shell): void {
  program
    .command("navigate <session> <id>")
    .description("go on from another entry; what stands behind it stays in the file, as a branch")
    .option("--summarize", "tell the place arrived at what the branch that is left had learnt")
    .option("--instructions <text>", "what the summary shall attend to")
    .option("--label <text>", "give the place arrived at a label")
    .addHelpText(
      "after",
      `
To a user message: to the place before it, and its text is printed, to be written anew.

Examples:
  espalier navigate session.jsonl before-cache --summarize
  espalier navigate session.jsonl start`,
    )
    .action((ref: string, reference: string, options: NavigateOptions) => {
      const open = options.summarize ? summarizing : changing;
      return open(shell, ref, async (session) => {
        const target = entryNamed(session, reference);
        const arrival = await interruptible(shell, "The summary", (act) =>
          session.navigate(target, { ...options, ...act }),
        );
        await print(shell, arrival, () => viewArrival(session, arrival));
      });
    });
}
