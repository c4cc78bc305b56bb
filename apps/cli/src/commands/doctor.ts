import type { Diagnosis } from "@espalier/engine";
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
    .addHelpText("after", "\nExample:\n  espalier doctor session.jsonl")
    .action((ref: string) =>
      reading(shell, ref, async (session) => {
        const diagnosis = session.diagnose();
        if (!diagnosis.ok) shell.exitCode = 1;
        await print(shell, diagnosis, () => viewDiagnosis(shell, diagnosis));
      }),
    );
}

function* viewDiagnosis({ colours }: Shell, { ok, entries, issues }: Diagnosis): Generator<string> {
  for (const { kind, line, offset, id, message } of issues) {
    const place =
      line === null
        ? `byte ${formatCount(offset)}`
        : `line ${formatCount(line)}, byte ${formatCount(offset)}`;
    yield `${colours.yellow(kind.padEnd(18))} ${colours.dim(place)} ${plainLine(id ? `${id}: ${message}` : message)}`;
  }
  const usable = `${formatMany(entries, "entry", "entries")} can be used`;
  yield ok
    ? colours.green(`The session is sound: ${usable}.`)
    : `${usable}; ${formatMany(issues.length, "issue")}.`;
}
