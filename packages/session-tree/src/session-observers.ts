import type { SessionChange, SessionObserver } from "./session-change.ts";

/** Those who hear of the changes of a session. */
export class SessionObservers {
  readonly #observers = new Set<SessionObserver>();

  /** Tells `observer` of every change from now on; returns the function that ends it. */
  add(observer: SessionObserver): () => void {
    this.#observers.add(observer);
    return () => this.#observers.delete(observer);
  }

  /** Tells all of them, whatever one of them does. */
  tell(change: SessionChange): void {
    for (const observer of this.#observers)
      try {
        observer(change);
      } catch (error) {
        // It is no failure of the append, which is in the log by now, and the others are to be told.
        queueMicrotask(() => {
          throw error;
        });
      }
  }
}
