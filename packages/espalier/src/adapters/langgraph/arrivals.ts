// The order in which calls of LangGraph come to be in the log. A file beside the saver because it is about time, and knows
// nothing of entries.
import { setImmediate } from "node:timers/promises";

/** A call for a checkpoint. */
export interface CallPlace {
  thread: string;
  ns: string;
  /** Id of the checkpoint. */
  id: string;
}

interface Call extends CallPlace {
  /** Never rejects. */
  ended: Promise<void>;
}

interface Waiting extends CallPlace {
  /** Receives the call that brings the checkpoint, as soon as the host makes it. */
  tell: (call: Call) => void;
}

const isBeside = (a: CallPlace, b: CallPlace) => a.thread === b.thread && a.ns === b.ns;

/**
 * Calls under way. LangGraph runs ahead of its own writing: it gives the writes of a step while the checkpoint of that step
 * waits for the one before.
 */
export class Arrivals {
  readonly #puts = new Set<Call>();
  readonly #writes = new Set<Call>();
  readonly #waiting = new Set<Waiting>();

  /** A call that brings a checkpoint. */
  async put(place: CallPlace, work: () => Promise<void>): Promise<void> {
    await this.#during(this.#puts, place, work());
  }

  /** A call that brings writes to a checkpoint; `arrival` is that of the checkpoint, for as long as it may come. */
  async write(
    place: CallPlace,
    isThere: () => Promise<boolean>,
    work: (arrival: Promise<void>) => Promise<void>,
  ): Promise<void> {
    const earlier = [...this.#writes].filter((call) => isBeside(call, place));
    const arrival = this.of(place, isThere, earlier);
    // The work awaits it a moment later, and throws its error.
    arrival.catch(() => undefined);
    await this.#during(this.#writes, place, work(arrival));
  }

  async #during(calls: Set<Call>, place: CallPlace, work: Promise<void>): Promise<void> {
    const call = { ...place, ended: work.catch(() => undefined) };
    calls.add(call);
    if (calls === this.#puts)
      for (const one of this.#waiting) if (isBeside(one, place) && one.id === place.id) one.tell(call);
    try {
      await work;
    } finally {
      calls.delete(call);
    }
  }

  /**
   * Resolves when a checkpoint is in the log, or nothing is under way that could bring it. Not a moment later: the writes of
   * a step are to be there before the next checkpoint.
   *
   * @param earlier calls that the host awaits before it gives the checkpoint
   */
  async of(place: CallPlace, isThere: () => Promise<boolean>, earlier: readonly Call[] = []): Promise<void> {
    let tell: Waiting["tell"] = () => undefined;
    const told = new Promise<Call>((resolve) => {
      tell = resolve;
    });
    const waiting = { ...place, tell };
    this.#waiting.add(waiting);
    try {
      for (;;) {
        const puts = [...this.#puts].filter((call) => isBeside(call, place));
        const own = puts.find(({ id }) => id === place.id) ?? (await Promise.race([told, isThere()]));
        if (own === true) return;
        if (own) return await own.ended;
        const running = [...puts, ...earlier.filter((call) => this.#writes.has(call))];
        if (running.length === 0) return;
        // When one of them has ended the host makes its next call.
        const next = Promise.race(running.map(({ ended }) => ended)).then(() => setImmediate());
        const call = await Promise.race([told, next]);
        if (call) return await call.ended;
      }
    } finally {
      this.#waiting.delete(waiting);
    }
  }
}
