import { existsSync } from "node:fs";
import { basename } from "node:path";
import { setImmediate } from "node:timers/promises";
import type { ActOptions, Session } from "@espalier/engine";
import { exportSession } from "@espalier/interop";
import type { ImportOptions } from "@espalier/interop/node";
import { EspalierError } from "@espalier/jsonl-stream";
import {
  type Change,
  changeRules,
  fork,
  hide,
  label,
  merge,
  navigate,
  rename,
  revert,
} from "../commands/changes.ts";
import { failureOf } from "../failure.ts";
import { formatChange, formatMany } from "../numbers.ts";
import { currentSettings, type SessionUse, storeInUse, summarizerOf, withSession } from "../opening.ts";
import type { Shell } from "../shell.ts";
import { writeExport } from "../write-export.ts";
import { listEffects } from "./effects/list-effects.ts";
import { SessionEffects } from "./effects/session-effects.ts";
import { LatestTask, type Performers } from "./effects/task.ts";
import { readInput } from "./screen/keys.ts";
import { handleSignals, Screen } from "./screen/screen.ts";
import {
  type Act,
  firstState,
  type Question,
  type TerminalEffect,
  type TerminalEvent,
  type TerminalState,
} from "./state/state.ts";
import { update } from "./state/update.ts";
import { view } from "./view/view.ts";

export interface TerminalOptions {
  /** Session that is opened first; by default the list is shown. */
  ref?: string;
  /** True: draw with ASCII only. */
  ascii?: boolean;
}

/** Milliseconds between two clock events. */
const TICK = 1_000;

/**
 * Opens the terminal's interface; resolves when the user quits. Side effects are started here; the rest of the terminal
 * is pure.
 */
export async function openTerminal(shell: Shell, { ref, ascii = false }: TerminalOptions): Promise<void> {
  const { stdin, stdout } = process;
  const isColoured = shell.colours.isColorSupported;
  const screen = new Screen(stdin, stdout, { colours: isColoured, ascii });
  const terminal = new Terminal(firstState(screen.size, { now: Date.now(), isColoured }), (state) =>
    screen.draw(view(state), state.size.columns),
  );
  const dispatch = terminal.dispatch.bind(terminal);
  const failed = (wasWork: boolean) => (error: unknown) =>
    dispatch({ type: "failed", message: failureOf(error).message, wasWork });
  const lists = listEffects(shell, dispatch, failed(false));
  // A list that is being read goes on until the session covers it, because the session may not open.
  const covering = (event: TerminalEvent) => {
    if (event.type === "opened") lists.end();
    dispatch(event);
  };
  const sessions = new SessionEffects(shell, covering, () => acts.writer(), failed(false));
  const acts = actEffects(
    shell,
    dispatch,
    {
      ref: () => terminal.state.tree?.ref ?? "",
      refresh: () => sessions.refresh(),
    },
    failed(true),
  );
  const signals = handleSignals(screen, () => terminal.draw());
  const input = readInput(stdin, dispatch);
  const clock = setInterval(() => dispatch({ type: "tick", now: Date.now() }), TICK);
  const redraw = () => {
    screen.clear();
    terminal.draw();
  };
  const resized = () => {
    screen.clear();
    dispatch({ type: "resize", ...screen.size });
  };
  stdout.on("resize", resized);
  try {
    await new Promise<void>((quit, reject) => {
      terminal.performers = {
        ...lists.performers,
        ...sessions.performers,
        ...acts.performers,
        copy({ text, what }) {
          screen.copy(text);
          dispatch({ type: "warned", message: `Copied ${what}.` });
        },
        suspend: signals.suspend,
        redraw,
        quit: () => quit(),
      };
      screen.enter();
      terminal.perform(ref === undefined ? { type: "list-sessions", filter: {} } : { type: "open", ref });
      // By then a short session is read, so the list is not drawn before it.
      setImmediate().then(() => terminal.draw(), reject);
    });
  } finally {
    clearInterval(clock);
    stdout.off("resize", resized);
    input.end();
    sessions.close();
    await acts.end();
    // An aborted import begins to read the list again.
    lists.end();
    screen.leave();
    signals.forget();
  }
}

/** Minimum number of milliseconds between two frames: at most 60 frames per second. */
const FRAME = 16;

/** Holds the state. All changes are made here: an event leads to the next state and its effects. */
class Terminal {
  #state: TerminalState;
  readonly #show: (state: TerminalState) => void;
  #shownAt = 0;
  #timer: NodeJS.Timeout | undefined;
  /** A function for each effect; effects of earlier events are dropped. */
  performers: Performers | undefined;

  /** @param show draws a state; called after a change, once for several events in a short time */
  constructor(state: TerminalState, show: (state: TerminalState) => void) {
    this.#state = state;
    this.#show = show;
  }

  get state(): TerminalState {
    return this.#state;
  }

  dispatch(event: TerminalEvent): void {
    const { state, effects } = update(this.#state, event);
    const isChanged = state !== this.#state;
    this.#state = state;
    for (const effect of effects) this.perform(effect);
    if (isChanged) this.#timer ??= setTimeout(() => this.draw(), this.#shownAt + FRAME - performance.now());
  }

  perform(effect: TerminalEffect): void {
    (this.performers?.[effect.type] as ((effect: TerminalEffect) => void) | undefined)?.(effect);
  }

  draw(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#show(this.#state);
    this.#shownAt = performance.now();
  }
}

const ENDINGS: Readonly<Record<Extract<TerminalEffect, { type: "export" }>["format"], string>> = {
  markdown: "md",
  json: "json",
};

/** The open session, as acts need it. */
interface ActedSession {
  ref: () => string;
  /** Shows appended entries before the result of an act is shown. */
  refresh: () => Promise<void>;
}

/** Answer that confirms a question. */
const YES = "Yes";

/** Runs acts that change a session, and their plans, with the functions of the commands. */
export function actEffects(
  terminalShell: Shell,
  dispatch: (event: TerminalEvent) => void,
  open: ActedSession,
  failed: (error: unknown) => void,
) {
  const acting = new LatestTask(dispatch, failed);
  /** Functions that answer the open questions of extensions. */
  const questions = new Map<number, (answer: string | undefined) => void>();
  let asked = 0;
  const warn = (message: string) => dispatch({ type: "warned", message });

  /** Shows a question of an extension, and waits for its answer; undefined when its dialog was closed. */
  const ask = (question: Omit<Question, "id">, signal: AbortSignal | undefined) => {
    const id = ++asked;
    const withdraw = () => {
      dispatch({ type: "withdrawn", question: id });
      performers.answer({ type: "answer", question: id, answer: undefined });
    };
    return new Promise<string | undefined>((resolve) => {
      questions.set(id, (answer) => {
        signal?.removeEventListener("abort", withdraw);
        resolve(answer);
      });
      signal?.addEventListener("abort", withdraw, { once: true });
      dispatch({ type: "asked", question: { id, ...question } });
    });
  };
  const shell: Shell = {
    ...terminalShell,
    // The screen is already drawn, so questions are asked in a dialog.
    interactive: false,
    complain: warn,
    setStatus: (_, text) => text !== undefined && warn(text),
    dialogs: {
      confirm: async (title, message, { signal } = {}) =>
        (await ask({ title, message, choices: [YES, "No"] }, signal)) === YES,
      select: (title, choices, { signal } = {}) => ask({ title, message: "", choices }, signal),
      input: (title, placeholder = "", { signal } = {}) =>
        ask({ title, message: placeholder, choices: [] }, signal),
    },
  };

  /** Begins work. Aborted work reports its end itself. */
  const begin = (work: (signal: AbortSignal) => Promise<void>) =>
    acting.begin(async (signal) => {
      try {
        await work(signal);
      } catch (error) {
        if (!signal.aborted) throw error;
        dispatch({ type: "told", message: "Aborted; the session continues where it was." });
      }
    });

  const performers: Performers<"act" | "plan" | "export" | "continue" | "import" | "abort" | "answer"> = {
    act({ act, onBusy }) {
      const globals = { ...shell.globals, ...(onBusy ? { onBusy } : {}) };
      begin(async (signal) => {
        try {
          const outcome = await carryOutAct({ ...shell, globals }, open.ref(), act, {
            signal,
            onProgress: ({ outputTokens }) => dispatch({ type: "progress", tokens: outputTokens }),
          });
          await open.refresh();
          dispatch({ type: "acted", outcome });
        } catch (error) {
          if (signal.aborted || !(error instanceof EspalierError)) throw error;
          const { code, message } = error;
          if (code === "busy") return dispatch({ type: "busy", act, holder: message });
          if (code !== "stale" || act.name !== "undo") throw error;
          await open.refresh();
          dispatch({ type: "outdated", message });
        }
      });
    },
    plan({ instructions }) {
      begin(async (signal) => {
        const plan = await withSession(shell, "plan", open.ref(), async (session) =>
          session.planCompaction(),
        );
        // A dialog that the user has refused would take the next key.
        signal.throwIfAborted();
        dispatch({ type: "planned", plan, ...(instructions === undefined ? {} : { instructions }) });
      });
    },
    export({ entryId, format }) {
      begin(() =>
        withSession(shell, "read", open.ref(), async (session) => {
          const name = `${basename(session.file, ".jsonl")}.${ENDINGS[format]}`;
          const at = format === "markdown" ? { at: entryId } : {};
          const { file, entries } = writeExport(name, exportSession(session, { format, ...at }));
          dispatch({
            type: "told",
            message: `${formatMany(entries, "entry", "entries")} written to ${file}.`,
          });
        }),
      );
    },
    continue({ entryId, agent }) {
      begin(() =>
        withSession(shell, "read", open.ref(), async (session) => {
          const [{ continueSession }, { viewContinued }] = await Promise.all([
            import("@espalier/interop/node"),
            import("../commands/export.ts"),
          ]);
          const own = session.header?.cwd ?? "";
          const isGone = !existsSync(own);
          const cwd = isGone ? process.cwd() : own;
          const continued = continueSession(session, { agent, at: entryId, cwd });
          const note = `The session's folder ${own} does not exist here; it continues in ${cwd}.`;
          const lines = [...(isGone && own !== "" ? [note] : []), ...viewContinued(continued)];
          dispatch({ type: "continued", lines, command: continued.command });
        }),
      );
    },
    // Imports sessions of other agents from this machine. An aborted import keeps the entries that it has written.
    import() {
      begin(async (signal) => {
        const { foundSessions, importSessions, localAgents } = await import("@espalier/interop/node");
        const entries = new Map<string, number>();
        const unreadable = new Set<string>();
        const agents = new Set<string>();
        try {
          // The import of an agent names its folder that cannot be read.
          for (const { agent } of foundSessions(process.env, (one) => agents.add(one))) agents.add(agent);
          for (const { agent, title } of localAgents.filter((one) => agents.has(one.agent))) {
            const onProgress: ImportOptions["onProgress"] = ({ index, total }) =>
              dispatch({ type: "progress", detail: `${title}, file ${index + 1} of ${total}` });
            const imports = importSessions(agent, { store: storeInUse(shell), onProgress });
            for await (const { file, added, issues } of imports) {
              if (file !== null) entries.set(file, (entries.get(file) ?? 0) + added);
              for (const issue of issues) if (issue.kind === "unreadable") unreadable.add(issue.message);
              await setImmediate();
              signal.throwIfAborted();
            }
          }
        } catch (error) {
          const reason = signal.aborted ? "The import was aborted." : failureOf(error).message;
          const before = entries.size === 0 ? "" : ` ${importedMessage(entries, [...unreadable])}`;
          return dispatch({ type: "imported", message: `${reason}${before}`, isFailure: !signal.aborted });
        }
        dispatch({ type: "imported", message: importedMessage(entries, [...unreadable]), isFailure: false });
      });
    },
    abort: () => acting.end(),
    answer({ question, answer }) {
      const resolve = questions.get(question);
      questions.delete(question);
      resolve?.(answer);
    },
  };

  return {
    performers,
    /** Aborts running work, and resolves when the session is released. */
    end(): Promise<void> {
      acting.end();
      return acting.settled();
    },
    /** Returns the current writer of summaries; `isBilled` is true if its calls cost money. */
    async writer(): Promise<{ name: string; isBilled: boolean }> {
      const { values } = await currentSettings(shell);
      const { summarizer } = summarizerOf(shell, values);
      return { name: summarizer.name, isBilled: summarizer.name !== "extractive" };
    },
  };
}

/** Result of an import in one notice: the number of new entries by session, and the first place that cannot be read. */
function importedMessage(entries: ReadonlyMap<string, number>, [problem, ...others]: string[]): string {
  if (entries.size === 0 && problem === undefined)
    return "Claude Code and Codex have no sessions on this machine; `espalier import <path>` imports a file or folder.";
  const added = [...entries.values()].reduce((sum, count) => sum + count, 0);
  const size = `${formatMany(entries.size, "session")}, ${formatMany(added, "new entry", "new entries")}`;
  const more =
    others.length > 0 ? ` ${others.length} more cannot be read; \`espalier import\` names them.` : "";
  return `Imported: ${size}.${problem === undefined ? "" : ` ${problem}${more}`}`;
}

/** Purpose for which an act opens the session, and the function of the act. */
interface ActShape<Name extends Act["name"]> {
  use: SessionUse;
  run: (session: Session, act: Extract<Act, { name: Name }>, options: ActOptions) => Promise<Change>;
}

const ACTS: { readonly [Name in Act["name"]]: ActShape<Name> } = {
  navigate: {
    use: "summarize",
    run: (session, { name, ...act }, options) => navigate(session, act, options),
  },
  fork: { use: "summarize", run: (session, { name, ...act }, options) => fork(session, act, options) },
  label: { use: "annotate", run: label },
  hide: { use: "change", run: hide },
  rename: { use: "annotate", run: rename },
  rules: { use: "annotate", run: changeRules },
  merge: { use: "summarize", run: (session, { name, ...act }, options) => merge(session, act, options) },
  // The text of an undone prompt is not opened for editing, because the next key would be typed into it.
  undo: {
    use: "change",
    run: async (session, { expected }) => ({
      ...(await revert(session, "undo", expected)),
      editorText: null,
    }),
  },
  redo: { use: "change", run: (session) => revert(session, "redo") },
  compact: {
    use: "summarize",
    async run(session, { instructions }, options) {
      const result = await session.compact({ ...(instructions ? { instructions } : {}), ...options });
      if (!result.eligible) return { value: result, sentences: [result.reason] };
      const { entryId, tokensBefore, tokensAfter, source } = result;
      const change = `${formatChange(tokensBefore, tokensAfter)} tokens`;
      return { value: result, sentences: [`Compacted: ${change}, written by ${source}.`], entryId };
    },
  },
  append: {
    use: "change",
    async run(session, { text }) {
      const [entry] = await session.appendMessages([{ role: "user", content: text }]);
      return { value: entry!, sentences: ["Appended as the next prompt."], entryId: entry!.id };
    },
  },
};

/**
 * Runs one act: opens the session with its lease, settings and extensions, calls the engine, and closes the session. If
 * the act continues in another session, the outcome names that session.
 *
 * @throws EspalierError `busy` with its holder, and errors of the engine; in both cases nothing has changed
 */
function carryOutAct(shell: Shell, ref: string, act: Act, options: ActOptions): Promise<Change> {
  const { use, run } = ACTS[act.name] as ActShape<Act["name"]>;
  return withSession(shell, use, ref, async (session) => {
    const change = await run(session, act, options);
    return session.file === ref ? change : { ref: session.file, ...change };
  });
}
