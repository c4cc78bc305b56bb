import { existsSync, statSync } from "node:fs";
import { resolve } from "node:path";
import { type ListedSession, type ListOptions, listSessions } from "@espalier/engine";
import type { Command } from "commander";
import { CommandError } from "../failure.ts";
import { jsonLine } from "../json-pieces.ts";
import { storeOf, tellSkipped } from "../opening.ts";
import { printLine } from "../print.ts";
import type { Shell } from "../shell.ts";
import { viewList } from "../views/view-list.ts";

export function addList(program: Command, shell: Shell): void {
  program
    .command("list [folder]")
    .description("list sessions, newest first: of a folder, or Espalier's and the Pi coding agent's own")
    .option("--sub-agents", "also the runs of sub-agents")
    .option("--parent <id>", "only forks and sub-agents of this session; the beginning of its id is enough")
    .addHelpText(
      "after",
      "\nExamples:\n  espalier list\n  espalier list ~/.pi/agent/sessions --json | jq -r .file\n  espalier list --parent 3kq7",
    )
    .action(async (folder: string | undefined, asked: Pick<ListOptions, "subAgents" | "parent">) => {
      if (folder !== undefined && !existsSync(folder))
        throw new CommandError("not-found", `There is no folder ${folder}; check the path.`);
      if (folder !== undefined && !statSync(folder).isDirectory())
        throw new CommandError(
          "usage",
          `${folder} is no folder; \`espalier tree ${folder}\` shows a session.`,
        );
      const sessions = listSessions({
        ...(folder === undefined ? storeOf(shell) : { folder: resolve(folder) }),
        ...asked,
        ...tellSkipped(shell),
      });
      if (!shell.json) {
        for await (const line of viewList(sessions, shell)) await printLine(shell, line);
        return;
      }
      for await (const session of sessions)
        await shell.output.writeLine(jsonLine(listedValue(session, asked)));
    });
}

/** The parent is told to those who asked about parents; others get what they always got. */
function listedValue({ id, ref: file, cwd, parent, ...told }: ListedSession, asked: ListOptions): object {
  const linked = asked.subAgents || asked.parent !== undefined ? { parent } : {};
  return { id: id || null, file, cwd: cwd || null, ...told, ...linked };
}
