import { existsSync } from "node:fs";
import { createSession, type Session } from "@espalier/engine";
import { contextOfPath, SessionTreeError } from "@espalier/session-tree";
import type { Command } from "commander";
import { entryNamed } from "../entry-reference.ts";
import { CommandError } from "../failure.ts";
import { filledMessages } from "../filled-messages.ts";
import { formatMany } from "../numbers.ts";
import { changing, heard } from "../opening.ts";
import { plainLine } from "../plain-text.ts";
import { print } from "../print.ts";
import { settledBy } from "../settings-in-force.ts";
import type { Shell } from "../shell.ts";
import { readStdinLines, type StdinLine } from "../stdin-lines.ts";

export function addAppend(program: Command, shell: Shell): void {
  program
    .command("append <session>")
    .description("append messages, read from stdin as JSON Lines; a file that does not exist is created")
    .option("--at <id>", "under this entry instead of the leaf: a new branch, if something follows it")
    .addHelpText(
      "after",
      `
A line is a message: {"role","content"} and what else its role has; the rest is filled in. Roles are user, assistant,
toolResult (with the toolCallId of its call), bashExecution (command, output), custom and system. Either all lines are
appended or none.

Examples:
  echo '{"role":"user","content":"Hello"}' | espalier append new.jsonl
  echo '{"role":"user","content":"And without it?"}' | espalier append session.jsonl --at before-cache`,
    )
    .action(async (ref: string, { at }: { at?: string }) => {
      if (shell.interactive)
        shell.complain("Reading messages from the terminal, one a line; Ctrl-D ends them.");
      const lines = await readStdinLines();
      if (lines.length === 0)
        throw new CommandError("bad-input", "There is no message on stdin; nothing was appended.");
      // What can be wrong with a line is found before a new file is made for it.
      filledMessages(lines, contextOfPath([]));
      await withSession(shell, ref, at, async (session) => {
        const ids = await appendLines(session, lines, at);
        const { file, leafId } = session;
        await print(shell, { file, leafId, ids }, () => [
          `Appended ${formatMany(ids.length, "message")} to ${file}; the leaf is ${plainLine(leafId ?? "before the first entry")}.`,
        ]);
      });
    });
}

/** A path that leads nowhere is a session to be made; an id that names none is a mistake. */
async function withSession(
  shell: Shell,
  ref: string,
  at: string | undefined,
  change: (session: Session) => Promise<void>,
): Promise<void> {
  const isPath = /[/\\]|\.jsonl$/.test(ref);
  if (!isPath || at !== undefined || (await isThere(shell, ref)))
    return changing(shell, ref, change, { isContextEnough: at === undefined });
  const session = await createSession({
    ...heard(shell),
    discoverExtensions: true,
    settle: settledBy(shell),
    file: ref,
  });
  try {
    return await change(session);
  } finally {
    await session.close();
  }
}

async function isThere({ store }: Shell, ref: string): Promise<boolean> {
  if (!store) return existsSync(ref);
  try {
    await (await store.open({ file: ref }, "read")).close();
    return true;
  } catch (error) {
    if (error instanceof SessionTreeError && error.code === "not-found") return false;
    throw error;
  }
}

async function appendLines(
  session: Session,
  lines: readonly StdinLine[],
  at: string | undefined,
): Promise<string[]> {
  if (at === undefined) return idsOf(await session.append(filledMessages(lines, session.context)));
  const parentId = session.core.placeOf(entryNamed(session, at));
  const [first, ...rest] = filledMessages(lines, session.contextAt(parentId));
  return idsOf(await session.append([{ ...first!, parentId }, ...rest]));
}

const idsOf = (entries: readonly { id: string }[]): string[] => entries.map(({ id }) => id);
