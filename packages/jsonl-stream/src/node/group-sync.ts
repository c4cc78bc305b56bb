/**
 * Lets all who wait for a sync share one: whoever asks while one runs waits for the next, which begins after what they
 * wrote. A round begins one turn of the event loop late, so that what is written in the same turn is in it.
 */
export class GroupSync {
  readonly #sync: () => Promise<void>;
  #running: Promise<void> | undefined;
  #next: Promise<void> | undefined;
  /** True until the round that was promised has begun: what is written until then is in it. */
  #gathering = false;

  constructor(sync: () => Promise<void>) {
    this.#sync = sync;
  }

  /** Resolves when a sync that began after this call has ended, and rejects as that one does. */
  wait(): Promise<void> {
    if (this.#running === undefined) return this.#begin();
    if (this.#gathering) return this.#running;
    this.#next ??= this.#running.then(
      () => this.#begin(),
      () => this.#begin(),
    );
    return this.#next;
  }

  #begin(): Promise<void> {
    this.#next = undefined;
    this.#gathering = true;
    const round = new Promise<void>((resolve) => setImmediate(resolve))
      .then(() => {
        this.#gathering = false;
        return this.#sync();
      })
      .finally(() => {
        if (this.#running === round) this.#running = undefined;
      });
    this.#running = round;
    return round;
  }
}
