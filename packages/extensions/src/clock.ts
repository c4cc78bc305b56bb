/** Where time limits come from, so that a test need not wait five minutes. */
export interface Clock {
  /** Calls `callback` once after `milliseconds`, unless the returned function is called first. */
  after(milliseconds: number, callback: () => void): () => void;
}

/** The clock of the process, by `setTimeout`. */
export const systemClock: Clock = {
  after(milliseconds, callback) {
    const timer = setTimeout(callback, milliseconds);
    return () => clearTimeout(timer);
  },
};
