import { setTimeout } from "node:timers/promises";
import { paced, type ReplayStep, type Session } from "@espalier/engine";
import { type Command, InvalidArgumentError } from "commander";
import { previewEntry } from "../entry-preview.ts";
import { existingEntry } from "../entry-reference.ts";
import { CommandError } from "../failure.ts";
import { formatCount, formatMany } from "../numbers.ts";
import { reading, warnOfDamage } from "../opening.ts";
import { printStep } from "../print.ts";
import type { Shell } from "../shell.ts";
import { cutToColumns } from "../text-columns.ts";

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
        if (!shell.json) await shell.output.writeLine(closingLine(steps, options));
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
    await printStep(shell, step, () => viewStep(shell, session, step));
    // Whoever watches a paced replay wants to see each step when it happens.
    if (speed !== undefined) await shell.output.flush();
  }
  return played;
}

/** Columns of a step's type; a longer one is cut. */
const TYPE_WIDTH = 14;

/** What stands before the preview of a step. */
const FACTS_WIDTH = 64;

function viewStep({ colours, columns }: Shell, session: Session, step: ReplayStep): string {
  const { seq, entryId, type, leafId, contextMessages, contextTokens, verified } = step;
  const facts = [
    formatCount(seq).padStart(6),
    entryId.padEnd(12),
    type.slice(0, TYPE_WIDTH).padEnd(TYPE_WIDTH),
    `${formatCount(contextMessages).padStart(5)} messages`,
    `${formatCount(contextTokens).padStart(9)} tokens`,
  ].join(" ");
  const moved = leafId === entryId ? "" : ` leaf ${leafId ?? "before the first entry"}`;
  const entry = session.getEntry(entryId);
  const preview = (entry && previewEntry(entry)) ?? "";
  const text = cutToColumns(`${moved} ${preview}`.trim(), Math.max(10, columns - FACTS_WIDTH));
  const mark = verified === false ? colours.red(" differs") : "";
  return `${facts}${mark}  ${colours.dim(text)}`;
}

function parseSpeed(text: string): number {
  const speed = Number(text);
  if (!(speed > 0)) throw new InvalidArgumentError("It is a number above 0: 10 is ten times as fast.");
  return speed;
}
