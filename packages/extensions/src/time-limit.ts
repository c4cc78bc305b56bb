/** 10 s, in milliseconds: what a handler may take where its hook says nothing else. */
export const HANDLER_LIMIT_MS = 10_000;

/** 5 minutes, in milliseconds: for hooks whose handlers may ask a model before they answer. */
export const LONG_HANDLER_LIMIT_MS = 300_000;

/** About 25 days. Timers take 32 bits; a larger number would fire at once. */
const LARGEST_LIMIT_MS = 2 ** 31 - 1;

/** Why these milliseconds cannot be a limit, as a sentence; undefined if they can. */
export function refuseTimeLimit(milliseconds: number): string | undefined {
  if (milliseconds > 0 && milliseconds <= LARGEST_LIMIT_MS) return undefined;
  return `the timeoutMs ${milliseconds}; give milliseconds between 1 and ${LARGEST_LIMIT_MS}.`;
}
