import type { TerminalEffect, TerminalEvent, TerminalState } from "./state/state.ts";
import { update } from "./state/update.ts";

/** Carries out an effect; what comes of it is dispatched. */
export type Perform = (effect: TerminalEffect) => void;

/** The one place where the state changes: an event in, the next state, its effects out. */
export class Terminal {
  #state: TerminalState;
  readonly #observers = new Set<() => void>();
  #perform: Perform = () => {};
  #isTold = true;

  constructor(state: TerminalState) {
    this.#state = state;
  }

  get state(): TerminalState {
    return this.#state;
  }

  performWith(perform: Perform): void {
    this.#perform = perform;
  }

  /** Several events in a row are shown as one change. */
  dispatch(event: TerminalEvent): void {
    const { state, effects } = update(this.#state, event);
    const isChanged = state !== this.#state;
    this.#state = state;
    for (const effect of effects) this.#perform(effect);
    if (!isChanged || !this.#isTold) return;
    this.#isTold = false;
    setImmediate(() => {
      this.#isTold = true;
      for (const observer of this.#observers) observer();
    });
  }

  subscribe(observer: () => void): () => void {
    this.#observers.add(observer);
    return () => this.#observers.delete(observer);
  }
}

/** The terminal before anything happened. */
export function firstState(
  size: TerminalState["size"],
  { now, isColoured }: { now: number; isColoured: boolean },
): TerminalState {
  return {
    size,
    now,
    isColoured,
    tree: undefined,
    dialog: undefined,
    notice: undefined,
    work: undefined,
    sessions: {
      listed: [],
      isListing: true,
      sort: "age",
      showsSubAgents: false,
      query: undefined,
      hits: [],
      isSearching: false,
      facts: new Map(),
      cursor: 0,
      top: 0,
    },
  };
}
