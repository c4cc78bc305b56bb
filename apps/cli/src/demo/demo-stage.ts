import { setTimeout } from "node:timers/promises";
import { jsonLine } from "../json-pieces.ts";
import { printLine, printLines } from "../print.ts";
import type { Shell } from "../shell.ts";

/** Milliseconds a reader gets for each step on a terminal. */
const PAUSE = 1_200;

/** Where the steps of the demo are shown: a heading, what to notice, and what there is to see. */
export interface DemoStage {
  /** Columns there are. */
  readonly columns: number;
  /**
   * @param title what the step does
   * @param notice what a newcomer should see in it, in one sentence
   * @param facts what a program is told of it
   */
  show(title: string, notice: string, facts: object, lines: Iterable<string>): Promise<void>;
}

/** Columns where no terminal says how many there are. */
const PAGE = 100;

export function openStage(shell: Shell): DemoStage {
  const { colours, output, json } = shell;
  const isTerminal = Number.isFinite(shell.columns);
  const columns = isTerminal ? shell.columns : PAGE;
  let step = 0;
  return {
    columns,
    async show(title, notice, facts, lines) {
      step++;
      if (json) return output.writeLine(jsonLine({ step, title, ...facts }));
      if (step > 1 && isTerminal) await setTimeout(PAUSE);
      await printLine(shell, `\n${colours.bold(colours.cyan(`${step}. ${title}`))}`);
      await printLine(shell, `   ${colours.italic(notice)}\n`);
      await printLines(shell, lines);
      await output.flush();
    },
  };
}
