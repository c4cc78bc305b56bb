import { existsSync, statSync } from "node:fs";
import { resolve } from "node:path";
import { type SearchOptions, searchSessions } from "@espalier/engine";
import type { Command } from "commander";
import { parseCount } from "../count-option.ts";
import { CommandError } from "../failure.ts";
import { storeOf, tellSkipped } from "../opening.ts";
import { printLine, printStep } from "../print.ts";
import type { Shell } from "../shell.ts";
import { viewHit } from "../views/view-hit.ts";

interface SearchCommandOptions {
  limit?: number;
  caseSensitive?: boolean;
}

export function addSearch(program: Command, shell: Shell): void {
  program
    .command("search <query> [folder]")
    .description(
      "find what was said: in all sessions below a folder, or in Espalier's and the Pi coding agent's own",
    )
    .option("--limit <count>", "stop after so many", parseCount)
    .option("--case-sensitive", "tell capital letters from small ones")
    .addHelpText(
      "after",
      `
The query is literal text. Messages are searched, calls with their arguments, results and summaries, on all branches
and behind compactions, but not what a model thought; the newest sessions come first. Instead of a folder, one session's
file can be named.

Examples:
  espalier search "disk full"
  espalier search cache-control ~/old-sessions --limit 20
  espalier search flaky session.jsonl --json | jq -r .entryId`,
    )
    .action(async (query: string, place: string | undefined, options: SearchCommandOptions) => {
      const found = searchSessions(query, {
        ...options,
        ...(place === undefined ? storeOf(shell) : placeOf(place)),
        ...tellSkipped(shell),
      });
      let count = 0;
      for await (const hit of found) {
        count++;
        await printStep(shell, { ...hit, sessionId: hit.sessionId || null }, () => viewHit(hit, shell));
        // Who waits at a terminal sees what was found while the search goes on.
        if (Number.isFinite(shell.columns)) await shell.output.flush();
      }
      if (count === 0 && !shell.json) await printLine(shell, "Nothing was found.");
    });
}

function placeOf(place: string): Pick<SearchOptions, "files" | "folder"> {
  if (!existsSync(place))
    throw new CommandError("not-found", `There is no file or folder ${place}; check the path.`);
  const path = resolve(place);
  return statSync(path).isDirectory() ? { folder: path } : { files: [path] };
}
