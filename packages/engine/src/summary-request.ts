import { type Summarizer, withSummarize } from "@espalier/summarizer";
import { contextForHandlers } from "./context-for-handlers.ts";
import { summaryRequest } from "./hooks.ts";
import type { SessionState } from "./session-state.ts";

/** Has every call of a summarizer shown to extensions before it goes out; the same summarizer when none listens. */
export function shownToExtensions(
  session: SessionState,
  summarizer: Summarizer,
  signal: AbortSignal,
): Summarizer {
  const { host } = session;
  if (!host.has(summaryRequest)) return summarizer;
  // Progress and abort are the caller's: an extension sees and changes what is asked, not how it is waited for.
  return withSummarize(summarizer, async ({ signal: ownSignal, onProgress, ...request }) => {
    const changed = await host.transform(summaryRequest, request, contextForHandlers(session, signal));
    return summarizer.summarize({
      ...changed,
      ...(ownSignal ? { signal: ownSignal } : {}),
      ...(onProgress ? { onProgress } : {}),
    });
  });
}
