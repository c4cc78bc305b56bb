import { setTimeout } from "node:timers/promises";
import { paced, type Session } from "@espalier/engine";
import { type Command, InvalidArgumentError } from "commander";
import { existingEntry } from "../entry-reference.ts";
import { CommandError } from "../failure.ts";
import { formatCount, formatMany } from "../numbers.ts";
import { reading } from "../opening.ts";
import { printLine, printStep } from "../print.ts";
import { warnOfDamage } from "../session-warnings.ts";
import type { Shell } from "../shell.ts";
import { viewStep } from "../views/view-step.ts";

interface ReplayOptions {
  until?: string;
  speed?: number;
  verify?: boolean;
}

export function addReplay(program: Command, shell: Shell): void {
  program
    .command("replay <session>")
    .description("play a session back, entry by entry: where the leaf was, and what the model read")
    .option("--until <id>", "stop after this entry")
    .option(
      "--speed <factor>",
      "at the session's own pace, so many times as fast; pauses of two seconds at most",
      parseSpeed,
    )
    .option("--verify", "build every step anew from scratch, too, and compare; exit 1 where they differ")
    .addHelpText(
      "after",
      `
Examples:
  espalier replay session.jsonl --speed 20
  espalier replay session.jsonl --verify --json | tail -1`,
    )
    .action((ref: string, options: ReplayOptions) =>
      reading(shell, ref, async (session) => {
        warnOfDamage(shell, session, session.tree.issues);
        const { steps, differing } = await play(shell, session, options);
        if (differing > 0)
          throw new CommandError(
            "verify",
            `${formatMany(differing, "step")} of ${formatCount(steps)} differ from what was built anew.`,
          );
        if (!shell.json) await printLine(shell, closingLine(steps, options));
      }),
    );
}

function closingLine(steps: number, { verify = false }: ReplayOptions): string {
  const all = formatMany(steps, "step");
  return verify ? `${all}, each the same when it is built anew.` : `${all}.`;
}

async function play(shell: Shell, session: Session, { until, speed, verify = false }: ReplayOptions) {
  const last = until === undefined ? {} : { until: existingEntry(session, until) };
  const steps = session.replay({ ...last, verify });
  const played = { steps: 0, differing: 0 };
  for await (const step of speed === undefined ? steps : paced(steps, session.tree, speed, setTimeout)) {
    played.steps++;
    if (step.verified === false) played.differing++;
    await printStep(shell, step, () => viewStep(session, step, shell));
    // Whoever watches a paced replay wants to see each step when it happens.
    if (speed !== undefined) await shell.output.flush();
  }
  return played;
}

function parseSpeed(text: string): number {
  const speed = Number(text);
  if (!(speed > 0)) throw new InvalidArgumentError("It is a number above 0: 10 is ten times as fast.");
  return speed;
}
