import type { NavigateResult, Session } from "@espalier/engine";
import type { ForkPosition } from "@espalier/session-tree";
import { type Command, Option } from "commander";
import { entryNamed, existingEntry } from "../entry-reference.ts";
import { formatMany } from "../numbers.ts";
import { changing, reading, summarizing } from "../opening.ts";
import { interruptible } from "../progress.ts";
import { print, type Shell } from "../shell.ts";
import { plainLine, plainText } from "../text.ts";

interface NavigateOptions {
  summarize?: boolean;
  instructions?: string;
  label?: string;
}

export function addNavigate(program: Command, shell: Shell): void {
  program
    .command("navigate <session> <id>")
    .description("go on from another entry; what stands behind it stays in the file, as a branch")
    .option("--summarize", "tell the place arrived at what the branch that is left had learnt")
    .option("--instructions <text>", "what the summary shall attend to")
    .option("--label <text>", "give the place arrived at a label")
    .addHelpText(
      "after",
      `
To a user message: to the place before it, and its text is printed, to be written anew.

Examples:
  espalier navigate session.jsonl before-cache --summarize
  espalier navigate session.jsonl start`,
    )
    .action((ref: string, reference: string, options: NavigateOptions) => {
      const open = options.summarize ? summarizing : changing;
      return open(shell, ref, async (session) => {
        const target = entryNamed(session, reference);
        const arrival = await interruptible(shell, "The summary", (act) =>
          session.navigate(target, { ...options, ...act }),
        );
        await print(shell, arrival, () => viewArrival(session, arrival));
      });
    });
}

export function addUndo(program: Command, shell: Shell): void {
  program
    .command("undo <session>")
    .description("take back the newest prompt, navigation, compaction or hiding; again, the one before")
    .addHelpText(
      "after",
      `
Nothing is removed: the leaf moves back, and what was taken back stays as a branch. A compaction counts when somebody asked
for it, not when it came because the context was long.

Example:
  espalier undo session.jsonl`,
    )
    .action((ref: string) =>
      changing(shell, ref, async (session) => {
        const arrival = await session.undo();
        await print(shell, arrival, () => viewArrival(session, arrival));
      }),
    );
}

/** Where the leaf is after it moved, and what the model reads there. */
function* viewArrival(
  session: Session,
  { leafId, summaryEntryId, editorText }: NavigateResult,
): Generator<string> {
  const { messages, tokens } = session.context;
  const place = leafId === null ? "before the first entry" : `at ${leafId}`;
  yield `The leaf is ${plainLine(place)}: the model reads ${formatMany(messages.length, "message")}, ${formatMany(tokens, "token")}.`;
  if (summaryEntryId !== null)
    yield `The branch that was left is summarised in ${plainLine(summaryEntryId)}.`;
  if (editorText) {
    yield "This text stood there, to be written anew:";
    yield "";
    yield plainText(editorText);
  }
}

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

interface MergeOptions {
  into?: string;
  instructions?: string;
}

export function addMerge(program: Command, shell: Shell): void {
  program
    .command("merge <session> <from>")
    .description("bring the conclusion of another branch here, as a summary; both branches stay")
    .option("--into <id>", "to this entry instead of the leaf")
    .option("--instructions <text>", "what the summary shall attend to")
    .addHelpText("after", "\nExample:\n  espalier merge session.jsonl http-cache-dead-end")
    .action((ref: string, from: string, { into, ...options }: MergeOptions) =>
      summarizing(shell, ref, async (session) => {
        const fromId = existingEntry(session, from);
        const place = into === undefined ? {} : { into: existingEntry(session, into) };
        const merged = await interruptible(shell, "The merge", (act) =>
          session.merge(fromId, { ...options, ...place, ...act }),
        );
        await print(shell, merged, () => [
          `The conclusion of the branch of ${plainLine(fromId)} stands in ${plainLine(merged.entryId)}; the leaf is ${plainLine(merged.leafId ?? "before the first entry")}.`,
        ]);
      }),
    );
}
