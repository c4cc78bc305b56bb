import type { ActEffects } from "./act-effects.ts";
import type { ListEffects } from "./list-effects.ts";
import type { SessionEffects } from "./session-effects.ts";
import type { Perform, Terminal } from "./terminal.ts";
import type { TerminalEffect } from "./terminal-effect.ts";

/** What is done to the terminal itself, and to the process. */
export interface Surroundings {
  copy: (text: string) => void;
  suspend: () => void;
  redraw: () => void;
  quit: () => void;
}

/** Who carries out which effect. */
export function performersOf(
  terminal: Terminal,
  lists: ListEffects,
  sessions: SessionEffects,
  acts: ActEffects,
  around: Surroundings,
): Perform {
  const openRef = (): string => terminal.state.tree?.ref ?? "";
  const performers: {
    readonly [Type in TerminalEffect["type"]]: (effect: Extract<TerminalEffect, { type: Type }>) => void;
  } = {
    "list-sessions": () => lists.list(),
    "read-facts": ({ refs }) => lists.readFacts(refs),
    search: ({ query }) => lists.search(query),
    open: ({ ref, ...opening }) => {
      lists.end();
      sessions.open(ref, opening);
    },
    close: () => sessions.close(),
    find: ({ query }) => sessions.find(query),
    "read-context": ({ row }) => sessions.readContext(row),
    "read-usage": ({ row }) => sessions.readUsage(row),
    plan: ({ instructions }) => acts.plan(openRef(), instructions),
    compare: ({ a, b }) => sessions.compare(a, b),
    act: ({ act, onBusy }) => acts.act(openRef(), act, onBusy),
    abort: () => acts.abort(),
    answer: ({ question, answer }) => acts.answer(question, answer),
    export: (effect) => acts.export(openRef(), effect),
    copy({ text, what }) {
      around.copy(text);
      terminal.dispatch({ type: "warned", message: `Copied ${what}.` });
    },
    suspend: () => around.suspend(),
    redraw: () => around.redraw(),
    quit: () => around.quit(),
  };
  return (effect) => (performers[effect.type] as (effect: TerminalEffect) => void)(effect);
}
