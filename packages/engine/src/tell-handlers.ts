import { ExtensionError, type NotifyHook } from "@espalier/extensions";
import { contextForHandlers } from "./context-for-handlers.ts";
import type { SessionState } from "./session-state.ts";

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
