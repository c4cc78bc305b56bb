import type { Immer } from "immer";
import { deepFreeze, type ExtensionReport, eventsOf, judgeAnswer, mergeAnswers, reportOn } from "./answer.ts";
import {
  type DecideHook,
  describeThrown,
  ExtensionError,
  type HandlerContext,
  type NotifyHook,
  type Registration,
  type TransformHook,
} from "./hook.ts";

/**
 * Calls every handler, one after the other. An abort ends only the waiting; the other handlers are still called,
 * because the event is often that an operation was aborted. Throws `critical-handler-failed` after all have been
 * called.
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

/**
 * Passes the value through the handlers. A change counts only if its handler succeeds and the hook accepts the value;
 * otherwise the next handler gets the value as it was before. The result is frozen and shares the unchanged parts.
 * Throws `critical-handler-failed` at once, and `aborted`: a handler that did not see the value might have redacted it.
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
    const immer = await loadImmer();
    const draft = immer.createDraft(before);
    if (signal?.aborted) throw aborted(hook.name, signal);
    const outcome = await callHandler(registration, draft, environment);
    if (outcome.kind === "aborted") throw aborted(hook.name, signal);
    const failure = outcome.kind === "failed" ? outcome.failure : readChange(registration, outcome.answer);
    if (failure) {
      environment.report(failure);
      if (registration.critical) throw criticalFailure(registration, failure);
    }

    /** Applies a changed value. Returns a report if the change is refused. */
    function readChange(by: Registration, answer: unknown): ExtensionReport | undefined {
      const { field } = hook;
      try {
        const given = typeof answer === "object" && answer !== null ? Object.entries(answer) : [];
        const replacement = given.find(([key, content]) => key === field && content !== undefined);
        if (replacement) draft[field] = replacement[1];
        const after = immer.finishDraft(draft);
        // An arrow function can return the value of an assignment; after a change of the draft, this is no answer.
        if (!replacement && given.length > 0 && after === before)
          return refusedAnswer(by, `it has no "${field}".`);
        const value = deepFreeze(after[field]) as Value;
        const reason = value === current ? undefined : hook.validate?.(value, current);
        if (reason !== undefined) return refusedAnswer(by, reason);
        current = value;
        return undefined;
      } catch (error) {
        return refusedAnswer(by, describeThrown(error), error);
      }
    }
  }
  return current;
}

function aborted(hookName: string, signal: AbortSignal | undefined): ExtensionError {
  return new ExtensionError("aborted", `${hookName} was aborted before all handlers had answered.`, {
    cause: signal?.reason,
  });
}

/** Merged answer of all handlers. */
export interface Decision<Answer extends object> {
  /** The valid answers, merged. Empty when no handler had an opinion, when cancelled and when aborted. */
  readonly answer: Partial<Answer>;
  /** For each field of `answer`, the extensions whose values it contains, in order. */
  readonly owners: { readonly [Field in keyof Answer]?: readonly string[] };
  /**
   * The first cancellation; null when there is none. A failed handler cancels if it is critical, or if it used a member
   * that the host lacks.
   */
  readonly cancelled: { readonly by: string; readonly reason: string | null } | null;
  /** True when the signal of the context ended the run. The remaining handlers were not called, and `answer` is empty. */
  readonly aborted: boolean;
  /**
   * Reports of this run. The host's `onReport` received them too. A handler that fails after the host stopped waiting
   * is reported only there.
   */
  readonly reports: readonly ExtensionReport[];
}

const lacksMember = (error: unknown): boolean =>
  error instanceof ExtensionError && error.code === "missing-member";

/**
 * Calls every handler, one after the other, even after a cancellation: an early cancellation must not hide that a later
 * handler fails or disagrees. Any cancellation wins. An abort of the context's signal ends the run.
 */
export async function runDecide<Answer extends object>(
  hook: DecideHook<object, Answer>,
  payload: object,
  handlers: Iterable<Registration>,
  environment: RunEnvironment,
): Promise<Decision<Answer>> {
  const { signal } = environment.context;
  const eventFor = eventsOf(hook.name, payload);
  const answers: Parameters<typeof mergeAnswers>[1][number][] = [];
  const reports: ExtensionReport[] = [];
  let cancelled: Decision<Answer>["cancelled"] = null;
  let aborted = false;
  const report = (one: ExtensionReport) => {
    reports.push(one);
    environment.report(one);
  };

  for (const registration of handlers) {
    const { owner, alias, critical } = registration;
    const event = eventFor(alias);
    if (event === null) continue;
    const outcome = signal?.aborted
      ? ({ kind: "aborted" } as const)
      : await callHandler(registration, event, environment);
    if (outcome.kind === "aborted") {
      aborted = true;
      break;
    }
    if (outcome.kind === "failed") {
      report(outcome.failure);
      // A guard that could not decide must not let the operation through.
      if (critical || lacksMember(outcome.failure.error))
        cancelled ??= { by: owner, reason: outcome.failure.message };
      continue;
    }
    const judged = judgeAnswer(hook, payload, outcome.answer, alias);
    if (judged.kind === "cancel") cancelled ??= { by: owner, reason: judged.reason };
    else if (judged.kind === "refused") report(refusedAnswer(registration, judged.reason, judged.error));
    else {
      answers.push({ owner, answer: judged.fields });
      const known = [...Object.keys(hook.fields), "cancel", "reason"].join(", ");
      for (const field of judged.unknown) {
        const message = `${owner} answered ${registration.hookName} with "${field}", which is not one of ${known}; the rest of its answer is used.`;
        report(reportOn(registration, "invalid-answer", message));
      }
    }
  }

  const merged = mergeAnswers(hook.fields, answers);
  for (const { field, standing, refused } of merged.conflicts) {
    const message = `${standing} and ${refused} both answered ${hook.name} with "${field}"; the answer of ${standing} is used.`;
    report({ kind: "conflict", owners: [standing, refused], hook: hook.name, message });
  }
  const usable = cancelled === null && !aborted;
  return {
    answer: usable ? (merged.answer as Partial<Answer>) : {},
    owners: usable ? (merged.owners as Decision<Answer>["owners"]) : {},
    cancelled,
    aborted,
    reports,
  };
}

/** Common parameters of the three loops, besides the hook and its handlers. */
export interface RunEnvironment {
  readonly context: HandlerContext;
  readonly clock: Clock;
  readonly report: (report: ExtensionReport) => void;
}

type HandlerOutcome =
  | { readonly kind: "answered"; readonly answer: unknown }
  | { readonly kind: "failed"; readonly failure: ExtensionReport }
  | { readonly kind: "aborted" };

/** Calls one handler within its limits. A failure is returned and not reported yet. */
async function callHandler(
  registration: Registration,
  event: object,
  environment: RunEnvironment,
): Promise<HandlerOutcome> {
  const { context, clock, report } = environment;
  const { owner, hookName, timeoutMs } = registration;
  const outcome = await callWithin(() => registration.handler(event, context), {
    timeoutMs,
    clock,
    signal: context.signal,
    onLate(error) {
      const message = `${owner} failed in ${hookName} after the host had stopped waiting for it: ${describeThrown(error)}`;
      report(reportOn(registration, "late-rejection", message, error));
    },
  });
  if (outcome.kind === "threw") {
    const message = `${owner} failed in ${hookName}: ${describeThrown(outcome.error)}`;
    return { kind: "failed", failure: reportOn(registration, "threw", message, outcome.error) };
  }
  if (outcome.kind !== "timed-out") return outcome;
  const message = `${owner} took longer than ${timeoutMs} ms in ${hookName} and was skipped; register it with a larger timeoutMs if it needs longer.`;
  return { kind: "failed", failure: reportOn(registration, "timed-out", message) };
}

const refusedAnswer = (registration: Registration, reason: string, error?: unknown): ExtensionReport => {
  const message = `The answer of ${registration.owner} to ${registration.hookName} was refused: ${reason}`;
  return reportOn(registration, "invalid-answer", message, error);
};

/** Returns the error for the caller of a notify or transform hook when a critical handler failed. */
function criticalFailure(registration: Registration, failure: ExtensionReport): ExtensionError {
  const message = `${failure.message} (the handler is registered as critical, so the operation was stopped)`;
  const { owner } = registration;
  return new ExtensionError("critical-handler-failed", message, { owner, cause: failure.error });
}

/** Outcome of a call: its answer, its error, or the reason why the host stopped waiting for it. */
type Outcome =
  | { readonly kind: "answered"; readonly answer: unknown }
  | { readonly kind: "threw"; readonly error: unknown }
  | { readonly kind: "timed-out" }
  | { readonly kind: "aborted" };

interface CallLimits {
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly signal?: AbortSignal | undefined;
  /**
   * Receives an error that the call throws after the host stopped waiting, so that it does not become an unhandled
   * rejection.
   */
  readonly onLate: (error: unknown) => void;
}

/**
 * Makes a call and waits for it within its limits. Never rejects. The call itself cannot be stopped: it continues
 * unobserved, and a call that blocks the thread blocks this one too.
 */
export function callWithin(call: () => unknown, limits: CallLimits): Promise<Outcome> {
  const { timeoutMs, clock, signal, onLate } = limits;
  return new Promise((resolve) => {
    let waiting = true;
    const end = (outcome: Outcome) => {
      waiting = false;
      stopClock();
      signal?.removeEventListener("abort", abort);
      resolve(outcome);
    };
    const abort = () => end({ kind: "aborted" });
    const stopClock = clock.after(timeoutMs, () => end({ kind: "timed-out" }));
    signal?.addEventListener("abort", abort, { once: true });

    // Inside a promise, a synchronous error and a rejection are handled alike.
    new Promise((settle) => settle(call())).then(
      (answer) => end({ kind: "answered", answer }),
      (error) => {
        if (waiting) end({ kind: "threw", error });
        else if (!isAbort(error, signal)) onLate(error);
      },
    );
    if (signal?.aborted) abort();
  });
}

function isAbort(error: unknown, signal: AbortSignal | undefined): boolean {
  if (!signal?.aborted) return false;
  return error === signal.reason || (error instanceof Error && error.name === "AbortError");
}

/** Source of time limits. Tests pass their own, so that they need not wait for minutes. */
export interface Clock {
  /** Calls `callback` once after `milliseconds`, unless the returned function is called first. */
  after(milliseconds: number, callback: () => void): () => void;
}

/** The clock of the process, by `setTimeout`. */
export const systemClock: Clock = {
  after(milliseconds, callback) {
    const timer = setTimeout(callback, milliseconds);
    return () => clearTimeout(timer);
  },
};

let loading: Promise<Immer> | undefined;

/** Loads immer for the first handler that may change a value, so that other programs do not load it. */
function loadImmer(): Promise<Immer> {
  loading ??= import("immer").then(({ enableMapSet, Immer }) => {
    enableMapSet();
    // The result is frozen by this module: immer's freezing recurses and would also freeze the unchanged original.
    return new Immer({ autoFreeze: false });
  });
  return loading;
}
