import { generateSummary } from "@espalier/compaction";
import {
  type ImportOptions,
  type ImportReport,
  importSessions,
  localAgents,
  type Summarize,
} from "@espalier/interop/node";
import type { Command } from "commander";
import { CommandError } from "../failure.ts";
import { storeInUse } from "../opening.ts";
import { printLines, printStep } from "../print.ts";
import { startProgress } from "../progress.ts";
import { readySummarizer } from "../ready-summarizer.ts";
import type { Shell } from "../shell.ts";
import { viewImport, viewImports } from "../views/view-import.ts";

export function addImport(program: Command, shell: Shell): void {
  program
    .command("import <what>")
    .description("bring sessions of other agents here: claude-code, codex, pi, or a file or folder of theirs")
    .option("--all", "those of all folders, not only of agents that worked in this one")
    .option("--no-redact", "keep well-known keys and tokens where the source has them")
    .addHelpText(
      "after",
      `
Where an agent is named, its own folders are looked through for sessions of the folder you are in; what a path names is
imported whole. Sources are only read. Importing again adds what is new.

Examples:
  espalier import claude-code
  espalier import codex --all
  espalier import ~/old-laptop/.claude/projects --json | jq -r .file`,
    )
    .action(async (what: string, { all = false, redact }: { all?: boolean; redact: boolean }) => {
      const isHere = !all && localAgents.some(({ agent }) => agent === what);
      const reports = await importAll(shell, what, {
        ...(isHere ? { cwd: process.cwd() } : {}),
        ...(redact ? {} : { redact: false }),
      });
      if (isHere && reports.every(({ status }) => status === "skipped"))
        throw new CommandError(
          "not-found",
          `No session of ${what} worked in ${process.cwd()}; --all imports those of all folders.`,
        );
      if (!shell.json) await printLines(shell, viewImports(reports, shell));
      if (reports.every(({ status }) => status === "skipped")) shell.exitCode = 1;
    });
}

async function importAll(
  shell: Shell,
  what: string,
  options: Pick<ImportOptions, "cwd" | "redact">,
): Promise<ImportReport[]> {
  const summarize = summaryWriter(shell);
  const progress = startProgress(shell, `Import of ${what}`);
  const reports: ImportReport[] = [];
  try {
    const imports = importSessions(what, {
      store: storeInUse(shell),
      ...options,
      ...(summarize ? { summarize } : {}),
      onProgress: ({ index, total }) => progress.tell(`file ${index + 1} of ${total}`),
    });
    for await (const report of imports) {
      reports.push(report);
      progress.clear();
      await printStep(shell, report, () => viewImport(report, shell));
    }
  } finally {
    progress.stop();
  }
  return reports;
}

/** Only who names a summarizer has summaries written that can only be read elsewhere: an import asks nobody by itself. */
function summaryWriter(shell: Shell): Summarize | undefined {
  if (shell.globals.summarizer === undefined) return undefined;
  return async (messages) => {
    const { text } = await generateSummary(messages, { summarizer: await readySummarizer(shell) });
    return text;
  };
}
