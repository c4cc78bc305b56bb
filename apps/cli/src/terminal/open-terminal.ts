import { setImmediate } from "node:timers/promises";
import type { Shell } from "../shell.ts";
import { actEffects } from "./effects/acts.ts";
import { listEffects } from "./effects/list-effects.ts";
import { sessionEffects } from "./effects/session-effects.ts";
import type { Performers } from "./effects/task.ts";
import { readInput } from "./screen/keys.ts";
import { handleSignals, Screen } from "./screen/screen.ts";
import { firstState, type TerminalEffect } from "./state/state.ts";
import { type TerminalEvent, update } from "./state/update.ts";
import { view } from "./view/view.ts";

interface TerminalOptions {
  /** Session that is opened first; by default the list is shown. */
  ref?: string;
  /** True: draw with ASCII only. */
  ascii?: boolean;
}

/** Milliseconds between two clock events. */
const TICK = 1_000;

/** Minimum number of milliseconds between two frames: at most 60 frames per second. */
const FRAME = 16;

/**
 * Opens the terminal's interface; resolves when the user quits. The state is changed and side effects are started here;
 * the rest of the terminal is pure.
 */
export async function openTerminal(shell: Shell, { ref, ascii = false }: TerminalOptions): Promise<void> {
  const { stdin, stdout } = process;
  const isColoured = shell.colours.isColorSupported;
  const screen = new Screen(stdin, stdout, { colours: isColoured, ascii });
  let state = firstState(screen.size, { now: Date.now(), isColoured });
  let shownAt = 0;
  let drawing: NodeJS.Timeout | undefined;
  const draw = () => {
    clearTimeout(drawing);
    drawing = undefined;
    screen.draw(view(state), state.size.columns);
    shownAt = performance.now();
  };
  const redraw = () => {
    screen.clear();
    draw();
  };
  const perform = (effect: TerminalEffect) =>
    (performers[effect.type] as (effect: TerminalEffect) => void)(effect);
  const dispatch = (event: TerminalEvent) => {
    // A list that is being read goes on until the session covers it, because the session may not open.
    if (event.type === "opened") lists.end();
    const before = state;
    const next = update(before, event);
    state = next.state;
    for (const effect of next.effects) perform(effect);
    // One frame shows several events in a short time.
    if (state !== before) drawing ??= setTimeout(draw, shownAt + FRAME - performance.now());
  };
  const lists = listEffects(shell, dispatch);
  const sessions = sessionEffects(shell, dispatch);
  const acts = actEffects(shell, dispatch, { ref: () => state.tree?.ref ?? "", refresh: sessions.refresh });
  const signals = handleSignals(screen, draw);
  let quit = () => {};
  const ended = new Promise<void>((resolve) => {
    quit = resolve;
  });
  const performers: Performers = {
    ...lists.performers,
    ...sessions.performers,
    ...acts.performers,
    copy({ text, what }) {
      screen.copy(text);
      dispatch({ type: "warned", message: `Copied ${what}.` });
    },
    suspend: signals.suspend,
    redraw,
    quit,
  };
  const input = readInput(stdin, dispatch);
  const clock = setInterval(() => dispatch({ type: "tick", now: Date.now() }), TICK);
  const resized = () => {
    screen.clear();
    dispatch({ type: "resize", ...screen.size });
  };
  stdout.on("resize", resized);
  try {
    screen.enter();
    perform(ref === undefined ? { type: "list-sessions", filter: {} } : { type: "open", ref });
    // By then a short session is read, so the list is not drawn before it.
    await setImmediate();
    draw();
    await ended;
  } finally {
    clearInterval(clock);
    stdout.off("resize", resized);
    input.end();
    sessions.performers.close({ type: "close" });
    await acts.end();
    // An aborted import begins to read the list again.
    lists.end();
    screen.leave();
    signals.forget();
  }
}
