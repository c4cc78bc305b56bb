import { type SessionStats, statsOf, type UsageTotals } from "@espalier/engine";
import type { Command } from "commander";
import { reading } from "../opening.ts";
import { print } from "../print.ts";
import { warnOfDamage } from "../session-warnings.ts";
import type { Shell } from "../shell.ts";
import { viewStats } from "../views/view-stats.ts";

export function addStats(program: Command, shell: Shell): void {
  program
    .command("stats <session>")
    .description("tell what a session cost, by model and by what for, and how it was compacted over time")
    .addHelpText(
      "after",
      `
Calls are counted once each, on all branches, those whose summary was thrown away among them.

Examples:
  espalier stats session.jsonl
  espalier stats session.jsonl --json | jq .compactions`,
    )
    .action((ref: string) =>
      reading(shell, ref, async (session) => {
        warnOfDamage(shell, session, session.tree.issues);
        const stats = statsOf(session);
        await print(shell, statsValue(stats), () => viewStats(stats, shell));
      }),
    );
}

/** Usage and cost stand apart in every sum. */
function statsValue({ total, path, branches, models, kinds, compactions }: SessionStats): object {
  return {
    ...apart(total),
    path: apart(path),
    branches: branches.map(({ leafId, ...sum }) => ({ leafId, ...apart(sum) })),
    models: models.map(({ provider, model, ...sum }) => ({ provider, model, ...apart(sum) })),
    kinds: kinds.map(({ kind, ...sum }) => ({ kind, ...apart(sum) })),
    compactions,
  };
}

const apart = ({ cost, calls, ...usage }: UsageTotals): object => ({ calls, usage, cost });
