import type { ActOptions, Session } from "@espalier/engine";
import { formatCount } from "../numbers.ts";
import { appendingBeside, changing, summarizing } from "../opening.ts";
import type { Shell } from "../shell.ts";
import type { Act } from "./terminal-effect.ts";
import type { ActOutcome } from "./terminal-event.ts";

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
 * @throws SessionTreeError `busy` with its holder, and what the engine throws: nothing has changed then
 */
export function carryOutAct(shell: Shell, ref: string, act: Act, options: ActOptions): Promise<ActOutcome> {
  const carrier = CARRIERS[act.name] as Carrier<Act["name"]>;
  return carrier.open(shell, ref, async (session) => {
    const outcome = await carrier.run(session, act, options);
    return session.file === ref || outcome.ref !== undefined ? outcome : { ...outcome, ref: session.file };
  });
}
