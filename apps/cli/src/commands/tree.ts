import type { Session } from "@espalier/engine";
import type { SessionIssue } from "@espalier/session-tree";
import type { Command } from "commander";
import { reading } from "../opening.ts";
import { printJson, printLines } from "../print.ts";
import { warnOfDamage } from "../session-warnings.ts";
import type { Shell } from "../shell.ts";
import { treeEntries } from "../tree-entries.ts";
import { type ViewTreeOptions, viewTree } from "../views/view-tree.ts";

interface TreeOptions extends ViewTreeOptions {
  ids?: boolean;
}

export function addTree(program: Command, shell: Shell): void {
  program
    .command("tree <session>")
    .description("draw a session: branches, labels, summaries, and the path the model reads")
    .option("--ids", "only how entries hang together, for --json: no role, timestamp or preview")
    .option("--all", "a line for every entry; runs in which little happens are folded otherwise")
    .option("--ascii", "draw with - and | instead of lines")
    .addHelpText(
      "after",
      `
Examples:
  espalier tree session.jsonl
  espalier tree session.jsonl --json | jq '.entries[] | select(.label)'`,
    )
    .action((ref: string, options: TreeOptions) =>
      reading(shell, ref, async (session) => {
        const { json } = shell;
        // A line that only parsing shows to be damaged is found where all lines are parsed anyway.
        const issues = json && !options.ids ? session.diagnose().issues : session.tree.issues;
        warnOfDamage(shell, session, issues);
        if (json) await printJson(shell, treeValue(session, issues, options));
        else await printLines(shell, viewTree(session, shell, options));
      }),
    );
}

function treeValue(session: Session, issues: readonly SessionIssue[], { ids = false }: TreeOptions): object {
  const { header, file, leafId, tree } = session;
  return {
    session: {
      id: header?.id || null,
      version: header?.version ?? null,
      cwd: header?.cwd || null,
      file,
      name: session.name ?? null,
    },
    leafId,
    entries: treeEntries(tree, leafId, ids),
    issues,
  };
}
