import { SummarizerError } from "@espalier/summarizer";

/**
 * The outcome of `work`, or the signal's reason when that comes first: who does not listen to the signal is not waited
 * for, and what comes of it later is let go.
 *
 * @param graceMs how long who does listen may take to end by itself, in milliseconds. Default 0.
 */
export function untilAborted<Result>(
  work: Promise<Result>,
  signal: AbortSignal,
  graceMs = 0,
): Promise<Result> {
  return new Promise((resolve, reject) => {
    const giveUp = () => void setTimeout(() => reject(signal.reason), graceMs);
    if (signal.aborted) giveUp();
    signal.addEventListener("abort", giveUp, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", giveUp));
  });
}

/** Whether an error says no more than that the signal came. */
export function isAbort(error: unknown, signal: AbortSignal): boolean {
  const isTold = error instanceof SummarizerError && error.code === "aborted";
  return signal.aborted && (error === signal.reason || isTold);
}
