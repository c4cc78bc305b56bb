import { existsSync } from "node:fs";
import { createSession, type Session } from "@espalier/engine";
import { EspalierError } from "@espalier/jsonl-stream";
import { contextOfPath } from "@espalier/session-tree";
import type { Command } from "commander";
import { entryNamed, existingEntry } from "../entry-reference.ts";
import { CommandError } from "../failure.ts";
import { formatCount, formatMany } from "../numbers.ts";
import { appendingBeside, changing, heard, settledBy } from "../opening.ts";
import { print, type Shell } from "../shell.ts";
import { filledMessages, readStdinLines, type StdinLine } from "../stdin-lines.ts";
import { plainLine } from "../text.ts";

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
    if (error instanceof EspalierError && error.code === "not-found") return false;
    throw error;
  }
}

async function appendLines(
  session: Session,
  lines: readonly StdinLine[],
  at: string | undefined,
): Promise<string[]> {
  if (at === undefined) return idsOf(await session.append(filledMessages(lines, session.context)));
  const parentId = session.placeOf(entryNamed(session, at));
  const [first, ...rest] = filledMessages(lines, session.contextAt(parentId));
  return idsOf(await session.append([{ ...first!, parentId }, ...rest]));
}

const idsOf = (entries: readonly { id: string }[]): string[] => entries.map(({ id }) => id);

export function addLabel(program: Command, shell: Shell): void {
  program
    .command("label <session> <id> [text]")
    .description("give an entry a label; without a text, take it away")
    .addHelpText("after", '\nExample:\n  espalier label session.jsonl leaf "tests pass"')
    .action((ref: string, reference: string, text: string | undefined) =>
      appendingBeside(shell, ref, async (session) => {
        const id = existingEntry(session, reference);
        const entryId = await session.label(id, text);
        const label = session.getLabel(id);
        await print(shell, { entryId }, () => [
          label === undefined
            ? `${plainLine(id)} has no label any more.`
            : `${plainLine(id)} is labelled ${plainLine(label)}.`,
        ]);
      }),
    );
}

export function addName(program: Command, shell: Shell): void {
  program
    .command("name <session> <text>")
    .description("give the session a name")
    .addHelpText("after", '\nExample:\n  espalier name session.jsonl "Offline tide tables"')
    .action((ref: string, text: string) =>
      appendingBeside(shell, ref, async (session) => {
        const entryId = await session.rename(text);
        await print(shell, { entryId }, () => [`The session is named ${plainLine(session.name ?? "")}.`]);
      }),
    );
}

export function addPin(program: Command, shell: Shell): void {
  program
    .command("pin <session> <id>")
    .description("keep an entry in the context, word for word, whatever is compacted")
    .option("--off", "no longer")
    .addHelpText("after", "\nExample:\n  espalier pin session.jsonl GH5p")
    .action((ref: string, reference: string, { off = false }: { off?: boolean }) =>
      appendingBeside(shell, ref, async (session) => {
        const id = existingEntry(session, reference);
        const entryId = await session.pin(id, !off);
        await print(shell, { entryId }, () => [
          off
            ? `${plainLine(id)} is no longer pinned.`
            : `${plainLine(id)} stays in the context over compactions.`,
        ]);
      }),
    );
}

export function addHide(program: Command, shell: Shell): void {
  program
    .command("hide <session> <id>")
    .description("keep from the model what an entry says, from here on; it stays in the file")
    .option("--off", "bring it back")
    .addHelpText(
      "after",
      `
For what makes each request fail or misleads: a picture no provider takes, a result that fills the window, a wrong answer.
It is appended, so that it holds in forks and over compactions, and not on other branches; undo takes it back. What a
compaction stands for already is hidden by hiding that.

Example:
  espalier hide session.jsonl GH5p`,
    )
    .action((ref: string, reference: string, { off = false }: { off?: boolean }) =>
      changing(shell, ref, async (session) => {
        const id = existingEntry(session, reference);
        const entryId = await session.hide(id, !off);
        const isSo = entryId === null ? "already " : "";
        const reads = `the model reads ${formatCount(session.context.tokens)} tokens`;
        await print(shell, { entryId }, () => [
          off
            ? `${plainLine(id)} is ${isSo}read by the model; ${reads}.`
            : `${plainLine(id)} is ${isSo}hidden; ${reads}.`,
        ]);
      }),
    );
}
