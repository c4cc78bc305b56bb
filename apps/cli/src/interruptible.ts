import type { ActOptions } from "@espalier/engine";
import { CommandError, INTERRUPTED } from "./failure.ts";
import { startProgress } from "./progress.ts";
import type { Shell } from "./shell.ts";

/**
 * Runs something that takes its time: shows on a terminal how far it is, and lets Ctrl-C end it. The first Ctrl-C is
 * waited for, so that nothing is left half done; a second one ends the process.
 *
 * @throws CommandError `aborted` once what was interrupted has settled
 */
export async function interruptible<Result>(
  shell: Shell,
  what: string,
  act: (options: Required<ActOptions>) => Promise<Result>,
): Promise<Result> {
  const interruption = new AbortController();
  const interrupt = () => {
    if (interruption.signal.aborted) process.exit(INTERRUPTED);
    interruption.abort();
  };
  process.on("SIGINT", interrupt);
  const progress = startProgress(shell, what);
  try {
    return await act({ signal: interruption.signal, onProgress: progress.report });
  } catch (error) {
    if (!interruption.signal.aborted) throw error;
    throw new CommandError("aborted", `${what} was interrupted; the session goes on where it was.`, {
      cause: error,
    });
  } finally {
    progress.stop();
    process.off("SIGINT", interrupt);
  }
}
