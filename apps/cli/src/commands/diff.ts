import { compareBranches } from "@espalier/engine";
import type { Command } from "commander";
import { entryNamed } from "../entry-reference.ts";
import { reading } from "../opening.ts";
import { print } from "../print.ts";
import { warnOfDamage } from "../session-warnings.ts";
import type { Shell } from "../shell.ts";
import { viewDiff } from "../views/view-diff.ts";

export function addDiff(program: Command, shell: Shell): void {
  program
    .command("diff <session> <a> <b>")
    .description("compare two branches from where they part: entries, messages, tokens, cost, files")
    .addHelpText(
      "after",
      `
Examples:
  espalier diff session.jsonl leaf http-cache-dead-end
  espalier diff session.jsonl a1B2 c3D4 --json | jq .a.files`,
    )
    .action((ref: string, a: string, b: string) =>
      reading(shell, ref, async (session) => {
        warnOfDamage(shell, session, session.tree.issues);
        const comparison = compareBranches(session.tree, entryNamed(session, a), entryNamed(session, b));
        await print(shell, comparison, () => viewDiff(session, comparison, shell));
      }),
    );
}
