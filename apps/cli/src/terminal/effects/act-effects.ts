import { basename } from "node:path";
import type { ActOptions, Session } from "@espalier/engine";
import { exportSession } from "@espalier/interop";
import { EspalierError } from "@espalier/jsonl-stream";
import { formatCount, formatMany } from "../../numbers.ts";
import {
  appendingBeside,
  changing,
  planning,
  reading,
  settingsInForce,
  summarizerOf,
  summarizing,
} from "../../opening.ts";
import type { Shell } from "../../shell.ts";
import { writeExport } from "../../write-export.ts";
import type { Act, ActOutcome, Question, TerminalEffect, TerminalEvent } from "../state/state.ts";
import { LatestTask } from "./task.ts";

type Export = Extract<TerminalEffect, { type: "export" }>;

/** How the files are called that an export makes. */
const ENDINGS: Readonly<Record<Export["format"], string>> = { markdown: "md", json: "json" };

/** The answer that confirms. */
const YES = "Yes";

/** What changes a session, or is planned for it: through the same doors as the commands. */
export class ActEffects {
  readonly #shell: Shell;
  readonly #dispatch: (event: TerminalEvent) => void;
  readonly #refresh: () => Promise<void>;
  readonly #acting: LatestTask;
  /** Questions of extensions that wait for an answer. */
  readonly #questions = new Map<number, (answer: string | undefined) => void>();
  #asked = 0;

  /** @param refresh has what an act appended shown before its outcome is told */
  constructor(
    shell: Shell,
    dispatch: (event: TerminalEvent) => void,
    refresh: () => Promise<void>,
    failed: (error: unknown) => void,
  ) {
    this.#shell = {
      ...shell,
      // The screen is drawn by then: no question can be asked on it but in a dialog.
      interactive: false,
      complain: (message) => dispatch({ type: "warned", message }),
      setStatus: (_, text) => text !== undefined && dispatch({ type: "warned", message: text }),
      dialogs: {
        confirm: async (title, message, { signal } = {}) =>
          (await this.#ask({ title, message, choices: [YES, "No"] }, signal)) === YES,
        select: (title, choices, { signal } = {}) => this.#ask({ title, message: "", choices }, signal),
        input: (title, placeholder = "", { signal } = {}) =>
          this.#ask({ title, message: placeholder, choices: [] }, signal),
      },
    };
    this.#dispatch = dispatch;
    this.#refresh = refresh;
    this.#acting = new LatestTask(failed);
  }

  /** Shows a question of an extension, and waits for its answer. */
  #ask(question: Omit<Question, "id">, signal: AbortSignal | undefined): Promise<string | undefined> {
    const id = ++this.#asked;
    const withdraw = () => {
      this.#dispatch({ type: "withdrawn", question: id });
      this.answer(id, undefined);
    };
    return new Promise((resolve) => {
      this.#questions.set(id, (answer) => {
        signal?.removeEventListener("abort", withdraw);
        resolve(answer);
      });
      signal?.addEventListener("abort", withdraw, { once: true });
      this.#dispatch({ type: "asked", question: { id, ...question } });
    });
  }

  /** Answers a question; undefined: it was closed. */
  answer(question: number, answer: string | undefined): void {
    const resolve = this.#questions.get(question);
    this.#questions.delete(question);
    resolve?.(answer);
  }

  act(ref: string, act: Act, onBusy: "fork" | "share" | undefined): void {
    const globals = { ...this.#shell.globals, ...(onBusy ? { onBusy } : {}) };
    this.#begin(async (signal) => {
      try {
        const outcome = await carryOutAct({ ...this.#shell, globals }, ref, act, {
          signal,
          onProgress: ({ outputTokens }) => this.#dispatch({ type: "progress", tokens: outputTokens }),
        });
        await this.#refresh();
        this.#dispatch({ type: "acted", act, outcome });
      } catch (error) {
        const isBusy = error instanceof EspalierError && error.code === "busy";
        if (signal.aborted || !isBusy) throw error;
        this.#dispatch({ type: "busy", act, holder: error.message });
      }
    });
  }

  plan(ref: string, instructions: string | undefined): void {
    this.#begin(async () => {
      const plan = await planning(this.#shell, ref, async (session) => session.planCompaction());
      this.#dispatch({ type: "planned", plan, ...(instructions === undefined ? {} : { instructions }) });
    });
  }

  export(ref: string, { entryId, format }: Export): void {
    this.#begin(() =>
      reading(this.#shell, ref, async (session) => {
        const name = `${basename(session.file, ".jsonl")}.${ENDINGS[format]}`;
        const at = format === "markdown" ? { at: entryId } : {};
        const { file, entries } = writeExport(name, exportSession(session, { format, ...at }));
        this.#dispatch({
          type: "told",
          message: `${formatMany(entries, "entry", "entries")} written to ${file}.`,
        });
      }),
    );
  }

  /** Work that was ended tells so when it has settled. */
  #begin(work: (signal: AbortSignal) => Promise<void>): void {
    this.#acting.begin(async (signal) => {
      try {
        await work(signal);
      } catch (error) {
        if (!signal.aborted) throw error;
        this.#dispatch({ type: "told", message: "Ended; the session goes on where it was." });
      }
    });
  }

  abort(): void {
    this.#acting.end();
  }

  /** Ends what is going on, and answers when it has let go of the session. */
  end(): Promise<void> {
    this.#acting.end();
    return this.#acting.settled();
  }

  /** Who would write a summary now, and whether that is billed. */
  async writer(): Promise<{ name: string; isBilled: boolean }> {
    const { values } = await settingsInForce(this.#shell);
    const { summarizer } = summarizerOf(this.#shell, values);
    return { name: summarizer.name, isBilled: summarizer.name !== "extractive" };
  }
}

/** How an act opens the session, and which function of the engine it is. */
interface Carrier<Name extends Act["name"]> {
  open: typeof changing;
  run: (session: Session, act: Extract<Act, { name: Name }>, options: ActOptions) => Promise<ActOutcome>;
}

const editable = (editorText: string | null): Pick<ActOutcome, "editorText"> =>
  editorText === null ? {} : { editorText };

const CARRIERS: { readonly [Name in Act["name"]]: Carrier<Name> } = {
  navigate: {
    open: summarizing,
    async run(session, { entryId, summarize, instructions }, options) {
      const asked = { summarize, ...(instructions ? { instructions } : {}) };
      const { leafId, summaryEntryId, editorText } = await session.navigate(entryId, {
        ...asked,
        ...options,
      });
      const where = leafId === null ? "from its start" : "from here";
      const told = summaryEntryId === null ? "" : ", told what was left";
      const message = `The session goes on ${where}${told}; the model reads ${formatCount(session.context.tokens)} tokens.`;
      return { message, entryId: leafId, ...editable(editorText) };
    },
  },
  fork: {
    open: summarizing,
    async run(session, { entryId, position }, options) {
      const { file, id, selectedText } = await session.fork(entryId, { position, ...options });
      return { message: `Forked to ${id}, ${file}`, ref: file, ...editable(selectedText) };
    },
  },
  label: {
    open: appendingBeside,
    async run(session, { entryId, text }) {
      await session.label(entryId, text);
      return { message: text === "" ? "The label is gone." : `Labelled ${text}.`, entryId };
    },
  },
  hide: {
    open: changing,
    async run(session, { entryId, hidden }) {
      await session.hide(entryId, hidden);
      const what = hidden ? "Hidden from the model, which" : "Shown to the model again, which";
      return { message: `${what} reads ${formatCount(session.context.tokens)} tokens.`, entryId };
    },
  },
  rename: {
    open: appendingBeside,
    async run(session, { text }) {
      await session.rename(text);
      return { message: `The session is called ${text}.` };
    },
  },
  compact: {
    open: summarizing,
    async run(session, { instructions }, options) {
      const result = await session.compact({ ...(instructions ? { instructions } : {}), ...options });
      if (!result.eligible) return { message: result.reason };
      const { entryId, tokensBefore, tokensAfter, source } = result;
      const message = `Compacted: ${formatCount(tokensBefore)} → ${formatCount(tokensAfter)} tokens, written by ${source}.`;
      return { message, entryId };
    },
  },
  merge: {
    open: summarizing,
    async run(session, { fromId, intoId }, options) {
      const into = intoId === undefined ? {} : { into: intoId };
      const { entryId } = await session.merge(fromId, { ...into, ...options });
      return { message: "The conclusion of the branch is told here.", entryId };
    },
  },
  append: {
    open: changing,
    async run(session, { text }) {
      const [entry] = await session.appendMessages([{ role: "user", content: text }]);
      return { message: "Appended as the next prompt.", entryId: entry!.id };
    },
  },
  undo: {
    open: changing,
    async run(session) {
      const { leafId, editorText } = await session.undo();
      const message = `Taken back; the session goes on ${leafId === null ? "from its start" : `from ${leafId}`}.`;
      return { message, entryId: leafId, ...editable(editorText) };
    },
  },
};

/**
 * Carries out one act: opens the session for as long as that takes, with its lease, settings and extensions, and calls
 * the engine. Where another session goes on than the one named, the outcome says which.
 *
 * @throws EspalierError `busy` with its holder, and what the engine throws: nothing has changed then
 */
function carryOutAct(shell: Shell, ref: string, act: Act, options: ActOptions): Promise<ActOutcome> {
  const carrier = CARRIERS[act.name] as Carrier<Act["name"]>;
  return carrier.open(shell, ref, async (session) => {
    const outcome = await carrier.run(session, act, options);
    return session.file === ref || outcome.ref !== undefined ? outcome : { ...outcome, ref: session.file };
  });
}
