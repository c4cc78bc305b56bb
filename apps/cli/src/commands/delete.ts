import { createInterface } from "node:readline/promises";
import { deleteSession, listSessions } from "@espalier/engine";
import { type SessionRef, SessionTreeError } from "@espalier/session-tree";
import type { Command } from "commander";
import { CommandError } from "../failure.ts";
import { formatMany } from "../numbers.ts";
import { reading, sessionNamed, storeInUse, storeOf, tellSkipped } from "../opening.ts";
import { plainLine } from "../plain-text.ts";
import { print } from "../print.ts";
import type { Shell } from "../shell.ts";

export function addDelete(program: Command, shell: Shell): void {
  program
    .command("delete <session>")
    .description("remove a session's file and all that lies beside it; it cannot be brought back")
    .option("--yes", "do not ask")
    .addHelpText("after", "\nExample:\n  espalier delete session.jsonl --yes")
    .action(async (ref: string, { yes = false }: { yes?: boolean }) => {
      if (!yes) await confirm(shell, ref);
      const named = await sessionNamed(shell.store, ref);
      const id = await idOf(shell, named);
      const deleted = await deleteSession(named, storeOf(shell));
      const orphans = id ? await orphansOf(shell, id) : [];
      await print(shell, { deleted, ...(orphans.length > 0 ? { orphans } : {}) }, () => [
        ...deleted.map((file) => `Removed ${file}`),
        ...orphans.map((file) => `${file} was begun from it, and stays whole; its link leads nowhere now.`),
      ]);
    });
}

async function idOf(shell: Shell, ref: SessionRef): Promise<string | undefined> {
  try {
    const log = await storeInUse(shell).open(ref, "read");
    await log.close();
    return log.header?.id;
  } catch (error) {
    // What cannot be read can be deleted; what is not there, deleting tells.
    if (error instanceof SessionTreeError) return undefined;
    throw error;
  }
}

/** Forks and runs of sub-agents that name a session which is gone; none while there is a copy of it. */
async function orphansOf(shell: Shell, parentId: string): Promise<string[]> {
  const orphans: string[] = [];
  for await (const { id, ref, parent } of listSessions({
    ...storeOf(shell),
    ...tellSkipped(shell),
    subAgents: true,
  })) {
    if (id === parentId) return [];
    if (parent?.sessionId === parentId) orphans.push(ref);
  }
  return orphans;
}

async function confirm(shell: Shell, ref: string): Promise<void> {
  if (!shell.interactive)
    throw new CommandError("confirm", "A deleted session cannot be brought back; say --yes to delete it.");
  const question = await reading(shell, ref, async ({ file, name, tree }) =>
    plainLine(
      `Delete ${file}${name ? ` (${name})` : ""} with ${formatMany(tree.length, "entry", "entries")}? [y/N]`,
    ),
  );
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const answer = await terminal.question(`${question} `);
    if (!/^y(es)?$/i.test(answer.trim())) throw new CommandError("confirm", "Nothing was deleted.");
  } finally {
    terminal.close();
  }
}
