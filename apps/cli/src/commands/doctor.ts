import { type Diagnosis, othersMayRead, type RepairReport, repairSession } from "@espalier/engine";
import type { Command } from "commander";
import { formatCount, formatMany } from "../numbers.ts";
import { reading } from "../opening.ts";
import { plainLine } from "../plain-text.ts";
import { print } from "../print.ts";
import type { Shell } from "../shell.ts";

export function addDoctor(program: Command, shell: Shell): void {
  program
    .command("doctor <session>")
    .description("read every line and say what is wrong, with line and offset; exit 1 when something is")
    .option("--repair <file>", "write a healed copy to this file, and a report beside it")
    .addHelpText(
      "after",
      "\nExamples:\n  espalier doctor session.jsonl\n  espalier doctor session.jsonl --repair healed.jsonl",
    )
    .action((ref: string, { repair }: { repair?: string }) =>
      reading(shell, ref, async (session) => {
        if (repair !== undefined) {
          const report = await repairSession(session.core.log, repair);
          await print(shell, report, () => viewRepair(report));
          return;
        }
        if (othersMayRead(session.file))
          shell.complain(`Others on this machine may read ${session.file}; \`chmod 600\` keeps it to you.`);
        const diagnosis = session.diagnose();
        if (!diagnosis.ok) shell.exitCode = 1;
        await print(shell, diagnosis, () => viewDiagnosis(shell, diagnosis));
        if (!diagnosis.ok && !shell.json)
          shell.complain(`\`espalier doctor ${ref} --repair <file>\` writes a healed copy.`);
      }),
    );
}

function* viewDiagnosis({ colours }: Shell, { ok, entries, issues }: Diagnosis): Generator<string> {
  for (const { kind, line, offset, id, message } of issues) {
    const byte = `byte ${formatCount(offset)}`;
    const place = line === null ? byte : `line ${formatCount(line)}, ${byte}`;
    yield `${colours.yellow(kind.padEnd(18))} ${colours.dim(place)} ${plainLine(id ? `${id}: ${message}` : message)}`;
  }
  const usable = `${formatMany(entries, "entry", "entries")} can be used`;
  yield ok
    ? colours.green(`The session is sound: ${usable}.`)
    : `${usable}; ${formatMany(issues.length, "issue")}.`;
}

function* viewRepair({ file, report, entries, issues, changes, lost }: RepairReport): Generator<string> {
  const bytes = lost.reduce((sum, { length }) => sum + length, 0);
  yield `The healed copy is ${file}: ${formatMany(entries, "entry", "entries")}, ${formatMany(issues.length, "issue")} seen to.`;
  yield `${formatMany(changes.length, "change")} to what could be read; ${formatMany(bytes, "byte")} could not be kept.`;
  yield `What was done stands in ${report}; the session itself was only read.`;
}
