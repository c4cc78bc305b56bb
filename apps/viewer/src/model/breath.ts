/** Milliseconds of work after which others get their turn: less than a person notices. */
const WORK = 20;

/** For work that takes long in a thread that has more to do: lets others have their turn when it is due. */
export class Breath {
  #since = performance.now();

  /** Nothing to wait for, most times; then what is due, and what came meanwhile, goes first. */
  take(): Promise<void> | undefined {
    if (performance.now() - this.#since < WORK) return undefined;
    return new Promise((resolve) => {
      setTimeout(() => {
        this.#since = performance.now();
        resolve();
      }, 0);
    });
  }
}
