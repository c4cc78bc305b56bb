/** What is published while contexts are compacted (origins 004). */
export const EventType = {
  /** Something is going on: `{message}`. */
  PROGRESS_UPDATE: "PROGRESS_UPDATE",
  /** Something has changed: `{name, data}`. */
  STATE_CHANGED: "STATE_CHANGED",
  /** Something did not come about, and one goes on without: `{name, message}`. */
  ERROR: "ERROR",
} as const;

/** What each type of event carries. */
export interface EventPayloads {
  PROGRESS_UPDATE: { message: string };
  STATE_CHANGED:
    | { name: "session.compaction"; data: CompactionCounts }
    | { name: "session.offload"; data: { offloadedCount: number; freedTokens: number } }
    /** Pictures were left out of so many messages; `reasons` says why, each reason once. */
    | { name: "session.pictures"; data: { messages: number; reasons: readonly string[] } };
  ERROR: { name: string; message: string };
}

/** What a compaction came to. */
export interface CompactionCounts {
  tokensBefore: number;
  tokensAfter: number;
  messagesRemoved: number;
}

/** Hears the events of one type; what it throws goes to the bus's `onError`. */
export type Listener<Type extends keyof EventPayloads> = (payload: EventPayloads[Type]) => void;

/** Tells whoever listens. A listener that throws is heard by `onError` and by nobody else. */
export class EventBus {
  readonly #listeners = new Map<string, Set<Listener<keyof EventPayloads>>>();
  readonly #onError: (error: unknown) => void;

  constructor(onError: (error: unknown) => void = (error) => console.error("A listener failed.", error)) {
    this.#onError = onError;
  }

  /** Tells those who listen to a type, in the order in which they began. */
  publish<Type extends keyof EventPayloads>(type: Type, payload: EventPayloads[Type]): void {
    for (const listener of this.#listeners.get(type) ?? []) {
      try {
        listener(payload);
      } catch (error) {
        this.#onError(error);
      }
    }
  }

  /** Tells `listener` of every event of a type; returns the function that ends it. */
  subscribe<Type extends keyof EventPayloads>(type: Type, listener: Listener<Type>): () => void {
    const listeners = this.#listeners.get(type) ?? new Set();
    this.#listeners.set(type, listeners);
    listeners.add(listener as Listener<keyof EventPayloads>);
    return () => listeners.delete(listener as Listener<keyof EventPayloads>);
  }
}

/** `Context at 85% - compacting`. */
export function progressMessage(fill: number): string {
  return `Context at ${Math.round(fill * 100)}% - compacting`;
}
