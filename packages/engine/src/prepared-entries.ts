import type { Entry, NewEntry } from "@espalier/session-tree";
import { contextForHandlers } from "./context-for-handlers.ts";
import { entryBeforeAppend } from "./hooks.ts";
import type { SessionState } from "./session-state.ts";

/** Entries as extensions want them written: what comes out is the only truth. */
export async function preparedEntries<Drafted extends NewEntry | Entry>(
  session: SessionState,
  drafts: readonly Drafted[],
): Promise<readonly Drafted[]> {
  const { host } = session;
  if (!host.has(entryBeforeAppend)) return drafts;
  const handlerContext = contextForHandlers(session);
  return Promise.all(
    drafts.map(async (draft) => (await host.transform(entryBeforeAppend, draft, handlerContext)) as Drafted),
  );
}
