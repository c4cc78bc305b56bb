import { type NewEntry, type Usage, type UsageEntry, usage } from "@espalier/session-tree";
import type { SummaryRequest } from "@espalier/summarizer";
import { contextForHandlers } from "./context-for-handlers.ts";
import { summaryRequest } from "./hooks.ts";
import type { SessionState } from "./session-state.ts";

/** The function that shows every request for a summary to extensions; undefined when none listens. */
export function showRequests(
  session: SessionState,
  signal: AbortSignal,
): ((request: SummaryRequest) => Promise<SummaryRequest>) | undefined {
  if (!session.host.has(summaryRequest)) return undefined;
  // Progress and abort are the caller's: an extension sees and changes what is asked, not how it is waited for.
  return async ({ signal: ownSignal, onProgress, ...request }) => ({
    ...(await session.host.transform(summaryRequest, request, contextForHandlers(session, signal))),
    ...(ownSignal ? { signal: ownSignal } : {}),
    ...(onProgress ? { onProgress } : {}),
  });
}

/** The entry for what a provider billed for a summary that was not kept; T9: its only trace. */
export function billedEntry(kind: string, summarizer: { name: string }, billed: Usage): NewEntry<UsageEntry> {
  return usage.of({ kind, provider: summarizer.name, model: summarizer.name, usage: billed });
}
