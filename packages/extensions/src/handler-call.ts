import type { Clock } from "./clock.ts";
import { ExtensionError } from "./extension-error.ts";
import type { HandlerContext } from "./handler.ts";
import { callWithin } from "./limited-call.ts";
import type { Registration } from "./registry.ts";
import { type ExtensionReport, reportLate, reportThrown, reportTimedOut } from "./report.ts";

/** What the three loops need besides the hook and its handlers. */
export interface RunEnvironment {
  readonly context: HandlerContext;
  readonly clock: Clock;
  readonly report: (report: ExtensionReport) => void;
}

export type HandlerOutcome =
  | { readonly kind: "answered"; readonly answer: unknown }
  | { readonly kind: "failed"; readonly failure: ExtensionReport }
  | { readonly kind: "aborted" };

/** Calls one handler within its limits; a failure is handed back, not yet reported. */
export async function callHandler(
  registration: Registration,
  event: object,
  environment: RunEnvironment,
): Promise<HandlerOutcome> {
  const { context, clock, report } = environment;
  const outcome = await callWithin(() => registration.handler(event, context), {
    timeoutMs: registration.timeoutMs,
    clock,
    signal: context.signal,
    onLate: (error) => report(reportLate(registration, error)),
  });
  switch (outcome.kind) {
    case "threw":
      return { kind: "failed", failure: reportThrown(registration, outcome.error) };
    case "timed-out":
      return { kind: "failed", failure: reportTimedOut(registration) };
    default:
      return outcome;
  }
}

/** What the caller of a notify or transform hook gets when a handler failed that must not be skipped. */
export function criticalFailure(registration: Registration, failure: ExtensionReport): ExtensionError {
  const message = `${failure.message} (the handler is registered as critical, so nothing goes on without it)`;
  const { owner } = registration;
  return new ExtensionError("critical-handler-failed", message, { owner, cause: failure.error });
}
