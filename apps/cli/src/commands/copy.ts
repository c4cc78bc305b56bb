import { existsSync, realpathSync } from "node:fs";
import { copySession } from "@espalier/engine";
import { type SessionRef, SessionTreeError } from "@espalier/session-tree";
import type { Command } from "commander";
import { type CopyPlace, copyPlace } from "../copy-place.ts";
import { CommandError } from "../failure.ts";
import { formatCount, formatMany } from "../numbers.ts";
import { sessionNamed } from "../opening.ts";
import { plainLine } from "../plain-text.ts";
import { printStep } from "../print.ts";
import type { Shell } from "../shell.ts";

export function addCopy(program: Command, shell: Shell): void {
  program
    .command("copy <from> <to>")
    .description("copy sessions between files and stores, byte for byte; again, and it adds what is missing")
    .addHelpText(
      "after",
      `
A place is a file, a folder (all sessions in it), store: or store:ID (in the store of --store), or the address of a
database, with #ID for one of its sessions. A session that \`espalier doctor\` finds fault with is not copied.

Examples:
  espalier copy session.jsonl store:
  espalier copy store:LDY0PbhBuvRG out.jsonl
  espalier copy ~/.espalier/sessions/ "postgres://localhost/agents?namespace=me"`,
    )
    .action(async (from: string, to: string) => {
      if (isSameFolder(from, to))
        throw new CommandError("usage", `${to} is where these sessions are already; name another place.`);
      const source = await copyPlace(shell, from);
      const target = await copyPlace(shell, to);
      if (source.ref === undefined && target.ref !== undefined)
        throw new CommandError(
          "usage",
          "Many sessions do not fit one name; copy to a folder or a store; the name of a new folder ends with /.",
        );
      if (source.ref !== undefined) {
        const named = await sessionNamed(source.isFiles ? undefined : source.store, source.ref);
        return copyOne(shell, source, named, target);
      }
      for await (const { ref } of source.store.list())
        await copyOrComplain(shell, source, { file: ref }, target);
    });
}

/** A folder copied to itself would have each session that is called otherwise twice. */
const isSameFolder = (from: string, to: string): boolean =>
  existsSync(from) && existsSync(to) && realpathSync(from) === realpathSync(to);

async function copyOne(shell: Shell, source: CopyPlace, ref: SessionRef, target: CopyPlace): Promise<void> {
  const log = await source.store.open(ref, "read");
  try {
    const name = target.ref ?? (log.header && target.nameOf(log.header));
    const copy = await copySession(log, target.store, name);
    await printStep(shell, { from: log.ref, ...copy }, () => {
      const how = copy.written === 0 ? "was there already" : `${formatMany(copy.written, "byte")} written`;
      return plainLine(`${log.ref} → ${copy.file} (${formatCount(copy.bytes)} bytes, ${how})`);
    });
  } finally {
    await log.close();
  }
}

/** Of many, one that cannot be copied keeps none of the others. */
async function copyOrComplain(
  shell: Shell,
  source: CopyPlace,
  ref: SessionRef,
  target: CopyPlace,
): Promise<void> {
  try {
    await copyOne(shell, source, ref, target);
  } catch (error) {
    const isItsOwn = error instanceof SessionTreeError || (error as { code?: unknown }).code === "damaged";
    if (!isItsOwn) throw error;
    shell.complain((error as Error).message);
    shell.exitCode = 1;
  }
}
