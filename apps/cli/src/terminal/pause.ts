import { setImmediate } from "node:timers/promises";

/** Milliseconds that a piece of work takes before a key may be answered. */
const SLICE = 8;

/** Called often by work that takes long: waits, now and then, so that others have their turn. Throws when it was aborted. */
export type Pause = () => Promise<void>;

export function pauses(signal?: AbortSignal): Pause {
  let began = performance.now();
  return async () => {
    if (performance.now() - began < SLICE) return;
    await setImmediate();
    signal?.throwIfAborted();
    began = performance.now();
  };
}
