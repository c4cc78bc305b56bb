import type { Command } from "commander";
import { planning } from "../opening.ts";
import { print } from "../print.ts";
import type { Shell } from "../shell.ts";
import { viewPolicies } from "../views/view-policies.ts";

export function addPolicies(program: Command, shell: Shell): void {
  program
    .command("policies <session>")
    .description(
      "compare what each policy of compaction would do with a session; asks no model, writes nothing",
    )
    .addHelpText(
      "after",
      `
Each policy counts tokens in its own way, so tokens compare within a row. A call is one request to a summarizer.

Example:
  espalier policies session.jsonl`,
    )
    .action((ref: string) =>
      planning(shell, ref, async (session) => {
        const rows = session.comparePolicies();
        await print(shell, rows, () => viewPolicies(rows, shell));
      }),
    );
}
