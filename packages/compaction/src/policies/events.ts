// Separate from session-compactor.ts: these names are published (origins 004).
/** Types of published events (origins 004). */
export const EventType = {
  /** Progress of an operation: `{message}`. */
  PROGRESS_UPDATE: "PROGRESS_UPDATE",
  /** Change of a state: `{name, data}`. */
  STATE_CHANGED: "STATE_CHANGED",
  /** A step failed, and the work continued without it: `{name, message}`. */
  ERROR: "ERROR",
} as const;

/** Payload of each type of event. */
export interface EventPayloads {
  PROGRESS_UPDATE: { message: string };
  STATE_CHANGED:
    | { name: "session.compaction"; data: CompactionCounts }
    | { name: "session.offload"; data: { offloadedCount: number; freedTokens: number } }
    /** Number of messages from which images were left out; `reasons` has each reason once. */
    | { name: "session.pictures"; data: { messages: number; reasons: readonly string[] } };
  ERROR: { name: string; message: string };
}

/** Tokens before and after a compaction, and the number of removed messages. */
export interface CompactionCounts {
  tokensBefore: number;
  tokensAfter: number;
  messagesRemoved: number;
}

/** Receives the events of one type; an error of the listener is passed to the bus's `onError`. */
export type Listener<Type extends keyof EventPayloads> = (payload: EventPayloads[Type]) => void;

/** Notifies its listeners. An error of a listener is passed only to `onError`. */
export class EventBus {
  readonly #listeners = new Map<string, Set<Listener<keyof EventPayloads>>>();
  readonly #onError: (error: unknown) => void;

  constructor(onError: (error: unknown) => void = (error) => console.error("A listener failed.", error)) {
    this.#onError = onError;
  }

  /** Notifies the listeners of a type, in the order of their subscription. */
  publish<Type extends keyof EventPayloads>(type: Type, payload: EventPayloads[Type]): void {
    for (const listener of this.#listeners.get(type) ?? []) {
      try {
        listener(payload);
      } catch (error) {
        this.#onError(error);
      }
    }
  }

  /** Subscribes to the events of a type; returns the function that ends the subscription. */
  subscribe<Type extends keyof EventPayloads>(type: Type, listener: Listener<Type>): () => void {
    const listeners = this.#listeners.get(type) ?? new Set();
    this.#listeners.set(type, listeners);
    listeners.add(listener as Listener<keyof EventPayloads>);
    return () => listeners.delete(listener as Listener<keyof EventPayloads>);
  }
}

/** Returns the message of `PROGRESS_UPDATE`: `Context at 85% - compacting` for a fill of 0.85. */
export function progressMessage(fill: number): string {
  return `Context at ${Math.round(fill * 100)}% - compacting`;
}

/** Log of failures that stop no operation; `console` is one, and writes to stderr. */
export interface PolicyLog {
  /** A step is retried or skipped. */
  warn(message: string, details?: { error: unknown }): void;
  /** An operation was abandoned. */
  error(message: string, details?: { error: unknown }): void;
}
