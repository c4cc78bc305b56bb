import type { Next, TerminalState } from "./state.ts";

/** What a key does on a screen. All keys are elements of lists, of which the help and the bottom line are made. */
export interface Binding<Shown> {
  keys: readonly string[];
  /** How the keys are written in the help. */
  shown: string;
  /** What they do, for the help. */
  title: string;
  /** One or two words for the bottom line; those without one are in the help alone. */
  hint?: string;
  run: (state: TerminalState, shown: Shown) => Next;
}

export const bindingOf = <Shown>(
  bindings: readonly Binding<Shown>[],
  key: string,
): Binding<Shown> | undefined => bindings.find(({ keys }) => keys.includes(key));
