import { linkedAbort } from "../abort.ts";

/**
 * Runs `work` over all items, at most `concurrency` at a time, in order. When one fails the others are aborted and
 * waited for, and the first failure is thrown.
 */
export async function runPool<T, R>(
  items: readonly T[],
  concurrency: number,
  parent: AbortSignal | undefined,
  work: (item: T, signal: AbortSignal) => Promise<R>,
): Promise<R[]> {
  const results: R[] = new Array(items.length);
  const { signal, abort, dispose } = linkedAbort(parent);
  let failure: { error: unknown } | undefined;
  let next = 0;
  const lane = async () => {
    while (next < items.length && !failure) {
      const index = next++;
      try {
        results[index] = await work(items[index]!, signal);
      } catch (error) {
        failure ??= { error };
        abort(error);
      }
    }
  };
  const lanes = Math.max(1, Math.min(Math.floor(concurrency), items.length));
  await Promise.all(Array.from({ length: lanes }, lane));
  dispose();
  if (failure) throw failure.error;
  return results;
}
