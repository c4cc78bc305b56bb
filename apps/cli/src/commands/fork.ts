import type { ForkPosition } from "@espalier/session-tree";
import { type Command, Option } from "commander";
import { existingEntry } from "../entry-reference.ts";
import { interruptible } from "../interruptible.ts";
import { reading, summarizing } from "../opening.ts";
import { plainLine, plainText } from "../plain-text.ts";
import { print } from "../print.ts";
import type { Shell } from "../shell.ts";

interface ForkOptions {
  position: ForkPosition;
  out?: string;
  summarize?: boolean;
  instructions?: string;
}

export function addFork(program: Command, shell: Shell): void {
  program
    .command("fork <session> <id>")
    .description("start a new session from the path of an entry: the same lines, the same ids")
    .addOption(
      new Option("--position <position>", "end with the entry, or before it")
        .choices(["at", "before"])
        .default("at"),
    )
    .option("--out <file>", "where to keep it (in a store: its name); by default below ~/.espalier/sessions")
    .option("--summarize", "tell the fork what the rest of this session had learnt")
    .option("--instructions <text>", "what the summary shall attend to")
    .addHelpText(
      "after",
      `
Examples:
  espalier fork session.jsonl before-cache --out other-way.jsonl
  espalier fork session.jsonl LDY0 --position before --summarize`,
    )
    .action((ref: string, reference: string, options: ForkOptions) => {
      // Without a summary nothing can be billed, so nothing of the session itself has to be written.
      const open = options.summarize ? summarizing : reading;
      return open(shell, ref, async (session) => {
        const entryId = existingEntry(session, reference);
        const fork = await interruptible(shell, "The fork", (act) =>
          session.fork(entryId, { ...options, ...act }),
        );
        await print(shell, fork, () => [
          `The fork ${plainLine(fork.id)} is in ${fork.file}; its leaf is ${plainLine(fork.leafId ?? "before the first entry")}.`,
          ...(fork.summaryEntryId
            ? [`What it leaves out is summarised in ${plainLine(fork.summaryEntryId)}.`]
            : []),
          ...(fork.selectedText
            ? ["This text stood there, to be written anew:", "", plainText(fork.selectedText)]
            : []),
        ]);
      });
    });
}
