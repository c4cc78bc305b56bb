import type { ReadStream } from "node:tty";
import { failureOf } from "../failure.ts";
import type { Shell } from "../shell.ts";
import { ActEffects } from "./effects/act-effects.ts";
import { ListEffects } from "./effects/list-effects.ts";
import { SessionEffects } from "./effects/session-effects.ts";
import { Drawing } from "./screen/drawing.ts";
import { PASTE_BEGINS, readKeys } from "./screen/keys.ts";
import { Tty } from "./screen/tty.ts";
import type { TerminalEffect, TerminalEvent } from "./state/state.ts";
import { firstState, type Perform, Terminal } from "./terminal.ts";

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

/** What is done to the terminal itself, and to the process. */
interface Surroundings {
  copy: (text: string) => void;
  suspend: () => void;
  redraw: () => void;
  quit: () => void;
}

/** Who carries out which effect. */
function performersOf(
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

/** Signals that end the program, and what a shell adds to 128 to say which it was. */
const FATAL: Readonly<Partial<Record<NodeJS.Signals, number>>> = { SIGHUP: 1, SIGINT: 2, SIGTERM: 15 };

/**
 * Sees to it that the terminal is given back however the program ends or stops, and taken again when it goes on.
 * `forget` ends that.
 */
function endWith(drawing: Drawing): { suspend: () => void; forget: () => void } {
  const end = (signal: NodeJS.Signals) => {
    drawing.end();
    process.exit(128 + (FATAL[signal] ?? 0));
  };
  const fatal = Object.keys(FATAL) as NodeJS.Signals[];
  const leave = () => drawing.end();
  /** With the handler gone the signal does what it always does. */
  const stop = (target: number) => {
    drawing.suspend();
    process.off("SIGTSTP", stopped);
    process.kill(target, "SIGTSTP");
  };
  const stopped = () => stop(process.pid);
  const continued = () => {
    process.on("SIGTSTP", stopped);
    drawing.resume();
  };
  for (const signal of fatal) process.on(signal, end);
  process.on("SIGTSTP", stopped);
  process.on("SIGCONT", continued);
  // Also where an error that nobody caught ends the program.
  process.on("exit", leave);
  return {
    // As the key does where no program asks for it: it stops whatever was started together with this one.
    suspend: () => stop(0),
    forget() {
      for (const signal of fatal) process.off(signal, end);
      process.off("SIGTSTP", stopped);
      process.off("SIGCONT", continued);
      process.off("exit", leave);
    },
  };
}

/** Milliseconds after which an escape was the key, and not the beginning of another one. */
const ESCAPE_TIME = 40;

/** Milliseconds after which the rest of what is pasted does not come any more: until then none of it is a key. */
const PASTE_TIME = 5_000;

/** Tells of everything that a person does at a terminal, until `end`. */
export function readInput(input: ReadStream, dispatch: (event: TerminalEvent) => void): { end: () => void } {
  let waiting = "";
  let timer: NodeJS.Timeout | undefined;
  const take = (read: string, isAll: boolean) => {
    const { inputs, rest } = readKeys(waiting + read, isAll);
    waiting = rest;
    for (const one of inputs) dispatch(one);
    const patience = rest.startsWith(PASTE_BEGINS) ? PASTE_TIME : ESCAPE_TIME;
    if (rest !== "") timer = setTimeout(take, patience, "", true);
  };
  const decoder = new TextDecoder();
  const heard = (bytes: Uint8Array) => {
    clearTimeout(timer);
    take(decoder.decode(bytes, { stream: true }), false);
  };
  input.on("data", heard);
  return {
    end() {
      clearTimeout(timer);
      input.off("data", heard);
    },
  };
}
