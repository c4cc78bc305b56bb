import type { Entry, NewEntry } from "@espalier/session-tree";
import { contextForHandlers } from "./context-for-handlers.ts";
import { entryBeforeAppend } from "./hooks.ts";
import { redactValue } from "./redact-entry.ts";
import { redactText } from "./redact-text.ts";
import type { SessionState } from "./session-state.ts";

/** Entries as extensions want them written, without secrets: what comes out is the only truth. */
export async function preparedEntries<Drafted extends NewEntry | Entry>(
  session: SessionState,
  drafts: readonly Drafted[],
): Promise<readonly Drafted[]> {
  const { host, options } = session;
  const redact = options.redact ?? redactText;
  const hidden = (draft: Drafted): Drafted => (redact === false ? draft : redactValue(draft, redact));
  if (!host.has(entryBeforeAppend)) return drafts.map(hidden);
  const handlerContext = contextForHandlers(session);
  return Promise.all(
    drafts.map(async (draft) =>
      hidden((await host.transform(entryBeforeAppend, draft, handlerContext)) as Drafted),
    ),
  );
}
