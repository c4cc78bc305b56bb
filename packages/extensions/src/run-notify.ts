import { eventsOf } from "./event.ts";
import type { ExtensionError } from "./extension-error.ts";
import { callHandler, criticalFailure, type RunEnvironment } from "./handler-call.ts";
import type { NotifyHook } from "./notify-hook.ts";
import type { Registration } from "./registry.ts";

/**
 * Tells every handler, one after the other. An abort ends only the waiting: those that are left are still told, since
 * that something was aborted is often what they are told. Throws `critical-handler-failed` when all have been told.
 */
export async function runNotify(
  hook: NotifyHook,
  payload: object,
  handlers: Iterable<Registration>,
  environment: RunEnvironment,
): Promise<void> {
  const eventFor = eventsOf(hook.name, payload);
  let failed: ExtensionError | undefined;
  for (const registration of handlers) {
    const event = eventFor(registration.alias);
    if (event === null) continue;
    const outcome = await callHandler(registration, event, environment);
    if (outcome.kind !== "failed") continue;
    environment.report(outcome.failure);
    if (registration.critical) failed ??= criticalFailure(registration, outcome.failure);
  }
  if (failed) throw failed;
}
