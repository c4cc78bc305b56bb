import { SummarizerError, type SummarizerErrorOptions } from "./summarizer-error.ts";

/** What is thrown when the caller's signal fires. */
export const abortError = (signal: AbortSignal | undefined, options: SummarizerErrorOptions = {}) =>
  new SummarizerError("aborted", "The summary was aborted.", { cause: signal?.reason, ...options });

/** Throws `aborted` when the signal has fired. */
export function throwIfAborted(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw abortError(signal);
}

/**
 * The outcome of `work`, or `aborted` as soon as the signal fires, whether the work listens to it or not. What
 * the work does after that is nobody's business any more: a late rejection is not reported.
 */
export function raceAbort<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return work;
  return new Promise<T>((resolve, reject) => {
    const stop = () => reject(abortError(signal));
    if (signal.aborted) stop();
    else signal.addEventListener("abort", stop, { once: true });
    const settle = () => signal.removeEventListener("abort", stop);
    work.then(
      (value) => {
        settle();
        resolve(value);
      },
      (error: unknown) => {
        settle();
        reject(error);
      },
    );
  });
}

/** A signal of its own that fires with `parent`; `dispose` lets go of the parent. */
export function linkedAbort(parent: AbortSignal | undefined): {
  signal: AbortSignal;
  abort: (reason?: unknown) => void;
  dispose: () => void;
} {
  const controller = new AbortController();
  const follow = () => controller.abort(parent?.reason);
  if (parent?.aborted) follow();
  else parent?.addEventListener("abort", follow, { once: true });
  return {
    signal: controller.signal,
    abort: (reason) => controller.abort(reason),
    dispose: () => parent?.removeEventListener("abort", follow),
  };
}

/** Waits; ends at once with `aborted` when the signal fires. */
export function sleep(milliseconds: number, signal?: AbortSignal): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const wait = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, milliseconds);
  });
  return raceAbort(wait, signal).finally(() => clearTimeout(timer));
}
