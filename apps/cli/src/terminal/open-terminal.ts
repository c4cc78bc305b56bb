import { failureOf } from "../failure.ts";
import type { Shell } from "../shell.ts";
import { ActEffects } from "./act-effects.ts";
import { Drawing } from "./drawing.ts";
import { endWith } from "./endings.ts";
import { ListEffects } from "./list-effects.ts";
import { performersOf } from "./perform.ts";
import { readInput } from "./read-input.ts";
import { SessionEffects } from "./session-effects.ts";
import { firstState, Terminal } from "./terminal.ts";
import { Tty } from "./tty.ts";

export interface TerminalOptions {
  /** The session that is open at first; without one, the list. */
  ref?: string;
  /** Nothing but ASCII. */
  ascii?: boolean;
}

/** Milliseconds between two looks at the clock. */
const TICK = 1_000;

/** Opens the terminal's interface; answers when it was quit. The edge: all else is a function of the state. */
export async function openTerminal(shell: Shell, { ref, ascii = false }: TerminalOptions): Promise<void> {
  const tty = new Tty(process.stdin, process.stdout);
  const isColoured = shell.colours.isColorSupported;
  const terminal = new Terminal(firstState(tty.size, { now: Date.now(), isColoured }));
  const dispatch = terminal.dispatch.bind(terminal);
  const failed = (wasWork: boolean) => (error: unknown) =>
    dispatch({ type: "failed", message: failureOf(error).message, wasWork });
  const lists = new ListEffects(shell, dispatch, failed(false));
  const sessions = new SessionEffects(shell, dispatch, () => acts.writer(), failed(false));
  const acts = new ActEffects(shell, dispatch, () => sessions.refresh(), failed(true));

  const drawing = new Drawing(tty, terminal, { colours: isColoured, ascii });
  const ends = endWith(drawing);
  const input = readInput(process.stdin, dispatch);
  const clock = setInterval(() => dispatch({ type: "tick", now: Date.now() }), TICK);
  const resized = () => {
    drawing.clear();
    dispatch({ type: "resize", ...tty.size });
  };
  process.stdout.on("resize", resized);
  try {
    await new Promise<void>((resolve, reject) => {
      const performers = performersOf(terminal, lists, sessions, acts, {
        copy: (text) => tty.copy(text),
        suspend: () => ends.suspend(),
        redraw: () => drawing.clear(),
        quit: resolve,
      });
      terminal.performWith(performers);
      if (ref === undefined) performers({ type: "list-sessions" });
      else performers({ type: "open", ref });
      drawing.begin().catch(reject);
    });
  } finally {
    clearInterval(clock);
    process.stdout.off("resize", resized);
    input.end();
    lists.end();
    sessions.close();
    await acts.end();
    drawing.end();
    ends.forget();
  }
}
