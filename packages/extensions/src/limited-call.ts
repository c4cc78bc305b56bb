import type { Clock } from "./clock.ts";

/** How a call ended, or why nobody waits for it any longer. */
export type Outcome =
  | { readonly kind: "answered"; readonly answer: unknown }
  | { readonly kind: "threw"; readonly error: unknown }
  | { readonly kind: "timed-out" }
  | { readonly kind: "aborted" };

export interface CallLimits {
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly signal?: AbortSignal | undefined;
  /** Gets what the call throws after it was given up, so that it never becomes an unhandled rejection. */
  readonly onLate: (error: unknown) => void;
}

/**
 * Makes a call and waits for it no longer than its limits allow. Never rejects. The call itself cannot be stopped:
 * it goes on unobserved, and one that blocks the thread blocks it.
 */
export function callWithin(call: () => unknown, limits: CallLimits): Promise<Outcome> {
  const { timeoutMs, clock, signal, onLate } = limits;
  return new Promise((resolve) => {
    let waiting = true;
    const end = (outcome: Outcome) => {
      waiting = false;
      stopClock();
      signal?.removeEventListener("abort", abort);
      resolve(outcome);
    };
    const abort = () => end({ kind: "aborted" });
    const stopClock = clock.after(timeoutMs, () => end({ kind: "timed-out" }));
    signal?.addEventListener("abort", abort, { once: true });

    // Inside a promise, a call that throws at once and one that rejects are the same.
    new Promise((settle) => settle(call())).then(
      (answer) => {
        if (waiting) end({ kind: "answered", answer });
      },
      (error) => {
        if (waiting) end({ kind: "threw", error });
        else if (!isAbort(error, signal)) onLate(error);
      },
    );
    if (signal?.aborted && waiting) abort();
  });
}

/** A call that rejects because it was told to stop did what it should. */
function isAbort(error: unknown, signal: AbortSignal | undefined): boolean {
  if (!signal?.aborted) return false;
  return error === signal.reason || (error instanceof Error && error.name === "AbortError");
}
