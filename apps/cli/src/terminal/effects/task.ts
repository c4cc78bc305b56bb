import { setImmediate, setTimeout } from "node:timers/promises";

/** Work of one kind, of which only the latest counts: beginning another one ends what is under way. */
export class LatestTask {
  readonly #failed: (error: unknown) => void;
  #current: AbortController | undefined;
  #running: Promise<void> = Promise.resolve();

  /** @param failed receives the error of work that failed, but not of work that was ended */
  constructor(failed: (error: unknown) => void) {
    this.#failed = failed;
  }

  /** @param delayMs waited first, for who asks again with every key */
  begin(work: (signal: AbortSignal) => Promise<void>, delayMs = 0): void {
    this.end();
    this.#current = new AbortController();
    const { signal } = this.#current;
    const run = async () => {
      if (delayMs > 0) await setTimeout(delayMs, undefined, { signal });
      await work(signal);
    };
    this.#running = run().catch((error: unknown) => {
      if (!signal.aborted) this.#failed(error);
    });
  }

  end(): void {
    this.#current?.abort();
  }

  /** Resolves when the latest work has ended or failed. */
  settled(): Promise<void> {
    return this.#running;
  }
}

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

/** Collects what comes; tells all of it so far at most every `interval` milliseconds, and in the end. */
export async function collect<Item>(
  items: AsyncIterable<Item>,
  interval: number,
  tell: (found: readonly Item[], isDone: boolean) => void,
): Promise<void> {
  const found: Item[] = [];
  let told = Date.now();
  for await (const item of items) {
    found.push(item);
    if (Date.now() - told < interval) continue;
    tell([...found], false);
    told = Date.now();
  }
  tell(found, true);
}
