import { AsyncLocalStorage } from "node:async_hooks";
import { ExtensionError, type NotifyHook } from "@espalier/extensions";
import { EspalierError } from "@espalier/jsonl-stream";
import {
  type Entry,
  type NewEntry,
  Redactor,
  readDrafts,
  redactEntry,
  redactText,
  type SessionTree,
} from "@espalier/session-tree";
import { entryBeforeAppend, type SessionState } from "../session/state.ts";
import { contextForHandlers } from "./context.ts";

/**
 * Tells extensions of something that has happened. A critical handler that fails cannot undo it: the host has reported
 * the failure, and what happened stands.
 */
export async function tellHandlers<Payload extends object>(
  session: SessionState,
  hook: NotifyHook<Payload>,
  payload: NoInfer<Payload>,
): Promise<void> {
  try {
    // With a signal of its own: that something was aborted may be what they are told.
    await session.host.notify(hook, payload, contextForHandlers(session));
  } catch (error) {
    if (!(error instanceof ExtensionError)) throw error;
  }
}

/** Entries as extensions want them written, without secrets: what comes out is the only truth. */
export async function preparedEntries<Drafted extends NewEntry | Entry>(
  session: SessionState,
  drafts: readonly Drafted[],
): Promise<readonly Drafted[]> {
  const { host, options } = session;
  const { redact = redactText } = options;
  // What is nested too deeply to be looked into is too deep to be written: the append refuses it by name.
  const redactor = redact && new Redactor(redact, { tooDeep: (value) => value });
  const hidden = (draft: Drafted): Drafted =>
    redactor ? readDrafts(() => redactEntry(draft, redactor)) : draft;
  if (!host.has(entryBeforeAppend)) return drafts.map(hidden);
  const handlerContext = contextForHandlers(session);
  return askAppendHandlers(session.core, () =>
    Promise.all(
      drafts.map(async (draft) =>
        hidden((await host.transform(entryBeforeAppend, draft, handlerContext)) as Drafted),
      ),
    ),
  );
}

/** The handlers of an append that is waiting for them. */
interface HandledAppend {
  core: SessionTree;
  /** Set once the append no longer waits. */
  isOver: boolean;
  /** The append whose handler brought this one about, in another session. */
  outer: HandledAppend | undefined;
}

const handled = new AsyncLocalStorage<HandledAppend>();

/** Asks the handlers of an append, so that {@link refuseNestedAppend} knows what happens inside of them. */
async function askAppendHandlers<Answer>(core: SessionTree, ask: () => Promise<Answer>): Promise<Answer> {
  const append: HandledAppend = { core, isOver: false, outer: handled.getStore() };
  try {
    return await handled.run(append, ask);
  } finally {
    append.isOver = true;
  }
}

/**
 * Refuses an append that would wait for the append which waits for it. Later, and in other sessions, the same handler
 * may append what it likes.
 *
 * @throws EspalierError `nested-append`
 */
export function refuseNestedAppend(core: SessionTree): void {
  for (let append = handled.getStore(); append; append = append.outer) {
    if (append.core !== core || append.isOver) continue;
    throw new EspalierError(
      "nested-append",
      "A handler of entry_before_append cannot append to the session that waits for its answer; do it in entry_appended.",
    );
  }
}
