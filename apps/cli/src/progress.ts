import type { ActOptions } from "@espalier/engine";
import { CommandError, INTERRUPTED } from "./failure.ts";
import { formatCount, formatSeconds } from "./numbers.ts";
import type { Shell } from "./shell.ts";
import { cutToColumns } from "./text.ts";

/**
 * Runs a long operation: shows its progress on a terminal, and lets Ctrl-C abort it. After the first Ctrl-C the
 * operation is given time to end cleanly; a second one ends the process with exit code 130.
 *
 * @throws CommandError `aborted` when the operation throws after Ctrl-C; its own error otherwise
 */
export async function interruptible<Result>(
  shell: Shell,
  what: string,
  act: (options: Required<ActOptions>, tell: (stage: string) => void) => Promise<Result>,
): Promise<Result> {
  const interruption = new AbortController();
  const interrupt = () => {
    if (interruption.signal.aborted) process.exit(INTERRUPTED);
    interruption.abort();
  };
  process.on("SIGINT", interrupt);
  const progress = startProgress(shell, what);
  try {
    return await act({ signal: interruption.signal, onProgress: progress.report }, progress.tell);
  } catch (error) {
    if (!interruption.signal.aborted) throw error;
    throw new CommandError("aborted", `${what} was interrupted; the session continues where it was.`, {
      cause: error,
    });
  } finally {
    progress.stop();
    process.off("SIGINT", interrupt);
  }
}

/** Milliseconds between two drawings. */
const INTERVAL = 120;
const PATIENCE = 400;
const TURNS = ["|", "/", "-", "\\"];

/** Shows a line of progress on stderr after 400 ms, only on a terminal. The caller must call `stop`. */
export function startProgress({ colours, progressColumns }: Shell, what: string) {
  const begun = Date.now();
  let stage = "";
  let tokens = 0;
  let turn = 0;
  let drawn = false;
  let drawnAt = begun;
  const draw = () => {
    const elapsed = Date.now() - begun;
    if (elapsed < PATIENCE) return;
    const spent = `${formatSeconds(elapsed)}${tokens > 0 ? `, ${formatCount(tokens)} tokens` : ""}`;
    const line = `${TURNS[turn++ % TURNS.length]} ${what}${stage}: ${spent} (Ctrl-C aborts it)`;
    process.stderr.write(`\r\u001b[K${colours.dim(cutToColumns(line, progressColumns - 1))}`);
    drawn = true;
    drawnAt = Date.now();
  };
  const clear = () => {
    if (drawn) process.stderr.write("\r\u001b[K");
    drawn = false;
  };
  const timer = progressColumns > 0 ? setInterval(draw, INTERVAL) : undefined;
  return {
    /** Shows the current stage. */
    tell: (now: string): void => {
      stage = `, ${now}`;
      // The timer does not fire during synchronous work, so this call draws.
      if (timer !== undefined && Date.now() - drawnAt >= INTERVAL) draw();
    },
    /** Clears the line, to make room for output. The timer draws it again. */
    clear,
    /** Shows the number of output tokens; of concurrent summaries, the number of the longest one. */
    report: ({ outputTokens }: { outputTokens: number }): void => {
      tokens = Math.max(tokens, outputTokens);
    },
    stop: (): void => {
      clearInterval(timer);
      clear();
    },
  };
}
