/** Waits that many milliseconds; rejects as soon as the signal fires. */
export type Sleep = (milliseconds: number, signal?: AbortSignal) => Promise<void>;

/** Waits by the clock of the system. */
export const sleepFor: Sleep = (milliseconds, signal) =>
  new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, milliseconds);
    if (signal?.aborted) stop();
    else signal?.addEventListener("abort", stop, { once: true });
  });
