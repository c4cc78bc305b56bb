import {
  type Entry,
  type NewEntry,
  Redactor,
  readDrafts,
  redactEntry,
  redactText,
} from "@espalier/session-tree";
import { askAppendHandlers } from "./append-handlers.ts";
import { contextForHandlers } from "./context-for-handlers.ts";
import { entryBeforeAppend } from "./hooks.ts";
import type { SessionState } from "./session-state.ts";

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
