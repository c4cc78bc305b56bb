import { formatCount } from "./numbers.ts";
import type { Shell } from "./shell.ts";
import { cutToColumns } from "./text-columns.ts";

/** Milliseconds between two drawings, and before the first: what is over sooner needs no progress. */
const INTERVAL = 120;
const PATIENCE = 400;

const TURNS = ["|", "/", "-", "\\"];

/** A line on stderr that says how far something is; where stderr is no terminal, nothing. */
export function startProgress({ colours, progressColumns }: Shell, what: string) {
  const begun = Date.now();
  let tokens = 0;
  let turn = 0;
  let drawn = false;
  const draw = () => {
    const elapsed = Date.now() - begun;
    if (elapsed < PATIENCE) return;
    const spent = `${(elapsed / 1_000).toFixed(1)} s${tokens > 0 ? `, ${formatCount(tokens)} tokens` : ""}`;
    const line = `${TURNS[turn++ % TURNS.length]} ${what}: ${spent} (Ctrl-C ends it)`;
    process.stderr.write(`\r\u001b[K${colours.dim(cutToColumns(line, progressColumns - 1))}`);
    drawn = true;
  };
  const timer = progressColumns > 0 ? setInterval(draw, INTERVAL) : undefined;
  return {
    /** Where two summaries are under way, the further one is shown. */
    report: ({ outputTokens }: { outputTokens: number }): void => {
      tokens = Math.max(tokens, outputTokens);
    },
    stop: (): void => {
      clearInterval(timer);
      if (drawn) process.stderr.write("\r\u001b[K");
    },
  };
}
