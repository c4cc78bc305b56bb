import { existsSync } from "node:fs";
import { basename } from "node:path";
import { setImmediate } from "node:timers/promises";
import type { ActOptions, Session } from "@espalier/engine";
import { exportSession } from "@espalier/interop";
import { continueSession, type ImportOptions, importSessions, localAgents } from "@espalier/interop/node";
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
} from "../../commands/changes.ts";
import { viewContinued } from "../../commands/export.ts";
import { foundAgents } from "../../commands/transfer.ts";
import { failureOf } from "../../failure.ts";
import { formatChange, formatMany } from "../../numbers.ts";
import { type SessionUse, storeInUse, withSession } from "../../opening.ts";
import { given } from "../../options.ts";
import type { Shell } from "../../shell.ts";
import { IMPORTED_AGENTS } from "../../text.ts";
import { writeExport } from "../../write-export.ts";
import type { Question } from "../state/state.ts";
import type { TerminalEvent } from "../state/update.ts";
import { LatestTask, type Performers } from "./task.ts";

/** Answer that confirms a question. */
const YES = "Yes";

/** Runs acts and other work on sessions by the commands' functions. `open.refresh` shows new entries before a result. */
export function actEffects(
  terminalShell: Shell,
  dispatch: (event: TerminalEvent) => void,
  open: { ref: () => string; refresh: () => Promise<void> },
) {
  const acting = new LatestTask(dispatch, true);
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

  /** Begins work, and reports its end when the user aborts it. */
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
      const globals = { ...shell.globals, ...given({ onBusy }) };
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
    plan() {
      begin(async (signal) => {
        const plan = await withSession(shell, "plan", open.ref(), async (session) =>
          session.planCompaction(),
        );
        // After an abort, no dialog opens: it would receive the user's next key.
        signal.throwIfAborted();
        dispatch({ type: "planned", plan });
      });
    },
    export({ entryId, format }) {
      begin(() =>
        withSession(shell, "read", open.ref(), async (session) => {
          const [ending, at] = format === "markdown" ? ["md", { at: entryId }] : ["json", {}];
          const name = `${basename(session.file, ".jsonl")}.${ending}`;
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
        const entries = new Map<string, number>();
        const unreadable = new Set<string>();
        try {
          const agents = foundAgents();
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
  };
}

/** Notice about an import: sessions, new entries, the first place that cannot be read, the number of the others. */
function importedMessage(entries: ReadonlyMap<string, number>, [problem, ...others]: string[]): string {
  if (entries.size === 0 && problem === undefined)
    return `${IMPORTED_AGENTS} have no sessions on this machine; \`espalier import <path>\` imports a file or folder.`;
  const added = [...entries.values()].reduce((sum, count) => sum + count, 0);
  const size = `${formatMany(entries.size, "session")}, ${formatMany(added, "new entry", "new entries")}`;
  const more =
    others.length > 0 ? ` ${others.length} more cannot be read; \`espalier import\` names them.` : "";
  return `Imported: ${size}.${problem === undefined ? "" : ` ${problem}${more}`}`;
}

/**
 * Runs one act: opens the session for the purpose of the act, calls the engine, and closes the session. If the act
 * continues in another session, the outcome names that session.
 *
 * @throws EspalierError `busy` with its holder, and errors of the engine; in both cases nothing has changed
 */
function carryOutAct(shell: Shell, ref: string, { name, ...fields }: Act, options: ActOptions) {
  const { use, run }: ActShape = ACTS[name];
  return withSession(shell, use, ref, async (session) => {
    const change = await run(session, fields as never, options);
    return session.file === ref ? change : { ref: session.file, ...change };
  });
}

interface ActShape {
  /** Name of the act while it runs, such as `forking`. */
  title: string;
  use: SessionUse;
  run: (session: Session, given: never, options: ActOptions) => Promise<Change>;
}

export const ACTS = {
  navigate: { title: "navigating", use: "summarize", run: navigate },
  // Without a summary, nothing is written to the session itself.
  fork: { title: "forking", use: "annotate", run: fork },
  label: { title: "labelling", use: "annotate", run: label },
  hide: { title: "hiding", use: "change", run: hide },
  rename: { title: "renaming", use: "annotate", run: rename },
  rules: { title: "changing the rules", use: "change", run: changeRules },
  compact: {
    title: "compacting",
    use: "summarize",
    async run(session, { instructions }: { instructions?: string }, options) {
      const result = await session.compact({ ...(instructions ? { instructions } : {}), ...options });
      if (!result.eligible) return { value: result, sentences: [result.reason] };
      const { entryId, tokensBefore, tokensAfter, source } = result;
      const change = `${formatChange(tokensBefore, tokensAfter)} tokens`;
      return { value: result, sentences: [`Compacted: ${change}, written by ${source}.`], entryId };
    },
  },
  merge: { title: "merging", use: "summarize", run: merge },
  append: {
    title: "appending",
    use: "change",
    async run(session, { text }: { text: string }) {
      const [entry] = await session.appendMessages([{ role: "user", content: text }]);
      return { value: entry!, sentences: ["Appended as the next prompt."], entryId: entry!.id };
    },
  },
  // The text of an undone prompt is not opened for editing, because the next key would be typed into it.
  undo: {
    title: "undoing",
    use: "change",
    run: async (session, { expected }: { expected?: string }) => ({
      ...(await revert(session, "undo", expected)),
      editorText: null,
    }),
  },
  redo: { title: "redoing", use: "change", run: (session, _given: object) => revert(session, "redo") },
} satisfies Record<string, ActShape>;

/** A change of a session, as a request to the engine. */
export type Act = {
  [Name in keyof typeof ACTS]: { name: Name } & Parameters<(typeof ACTS)[Name]["run"]>[1];
}[keyof typeof ACTS];
