import { loadDrafting, type ObjectDraft } from "./draft.ts";
import { describeThrown, ExtensionError } from "./extension-error.ts";
import { deepFreeze } from "./freeze.ts";
import { callHandler, criticalFailure, type RunEnvironment } from "./handler-call.ts";
import type { Registration } from "./registry.ts";
import { type ExtensionReport, reportInvalid } from "./report.ts";
import type { TransformHook } from "./transform-hook.ts";

/**
 * Passes the value through the handlers. Changes count only when their handler ends well and the hook finds the value
 * valid; else the next handler gets the value as it was. What comes back is frozen and shares what was not changed.
 * Throws `critical-handler-failed` at once, and `aborted`: a value that a handler has not seen may be one that it would
 * have redacted.
 */
export async function runTransform<Value, Field extends string>(
  hook: TransformHook<Value, Field>,
  value: Value,
  handlers: Iterable<Registration>,
  environment: RunEnvironment,
): Promise<Value> {
  const { signal } = environment.context;
  let current = value;
  for (const registration of handlers) {
    const before: Record<string, unknown> = { type: hook.name, [hook.field]: current };
    const work = (await loadDrafting())(before);
    if (signal?.aborted) throw aborted(hook.name, signal);
    const outcome = await callHandler(registration, work.draft, environment);
    if (outcome.kind === "aborted") throw aborted(hook.name, signal);
    const change =
      outcome.kind === "failed" ? outcome : readChange(hook, before, work, outcome.answer, registration);
    if (change.kind === "changed") {
      current = change.value;
      continue;
    }
    environment.report(change.failure);
    if (registration.critical) throw criticalFailure(registration, change.failure);
  }
  return current;
}

type Change<Value> = { kind: "changed"; value: Value } | { kind: "refused"; failure: ExtensionReport };

function readChange<Value, Field extends string>(
  hook: TransformHook<Value, Field>,
  before: Record<string, unknown>,
  work: ObjectDraft,
  answer: unknown,
  registration: Registration,
): Change<Value> {
  const refuse = (reason: string, error?: unknown): Change<Value> => ({
    kind: "refused",
    failure: reportInvalid(registration, reason, error),
  });
  const { field } = hook;
  try {
    const given = typeof answer === "object" && answer !== null ? Object.entries(answer) : [];
    const replacement = given.find(([key, content]) => key === field && content !== undefined);
    if (replacement) work.draft[field] = replacement[1];
    const after = work.finish();
    // An arrow function may return what it happened to assign; that is no answer if the draft was changed.
    if (!replacement && given.length > 0 && after === before) return refuse(`it has no "${field}".`);
    const value = deepFreeze(after[field]) as Value;
    const reason = hook.validate?.(value);
    return reason === undefined ? { kind: "changed", value } : refuse(reason);
  } catch (error) {
    return refuse(describeThrown(error), error);
  }
}

function aborted(hookName: string, signal: AbortSignal | undefined): ExtensionError {
  return new ExtensionError("aborted", `${hookName} was aborted before all handlers had answered.`, {
    cause: signal?.reason,
  });
}
