import { deepFreeze } from "@espalier/extensions";
import { labelsInForce, redactFolder, type SessionHeader } from "@espalier/session-tree";
import type { ExtensionContext } from "./extension-context.ts";
import type { SessionState } from "./session-state.ts";

/** The folder that the agent of a session works in: its header's; of a header that hides a key in it, this process's. */
export function sessionFolder(header: Pick<SessionHeader, "cwd"> | null | undefined): string {
  const here = process.cwd();
  return header && header.cwd !== redactFolder(here) ? header.cwd : here;
}

/** The context that handlers of one call get. */
export function contextForHandlers(
  session: SessionState,
  signal: AbortSignal = new AbortController().signal,
): ExtensionContext {
  const { core, options } = session;
  return {
    cwd: sessionFolder(core.header),
    hasUI: options.ui !== undefined,
    ui: { notify: (message, kind = "info") => options.ui?.notify(message, kind) },
    sessionManager: {
      getSessionId: () => core.id,
      getSessionFile: () => core.log.ref,
      getLeafId: () => core.leafId,
      // What is in the log never changes, and no handler can pretend otherwise.
      getEntry: (id) => deepFreeze(core.getEntry(id)),
      getEntries: () => [...core.tree.entries()].map(deepFreeze),
      getBranch: (fromId) => core.getBranch(fromId).map(deepFreeze),
      getLabel: (id) => labelsInForce(core.tree).get(id)?.label,
    },
    signal,
  };
}
