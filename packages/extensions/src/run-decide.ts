import { judgeAnswer } from "./answer.ts";
import type { DecideHook } from "./decide-hook.ts";
import { eventsOf } from "./event.ts";
import { ExtensionError } from "./extension-error.ts";
import { callHandler, type RunEnvironment } from "./handler-call.ts";
import { mergeAnswers, type OwnedAnswer } from "./merge.ts";
import type { Registration } from "./registry.ts";
import { type ExtensionReport, reportConflict, reportInvalid, reportUnknownField } from "./report.ts";

/** What all handlers together said. */
export interface Decision<Answer extends object> {
  /** The answers that stood, merged; empty when nobody had an opinion, when cancelled and when aborted. */
  readonly answer: Partial<Answer>;
  /** Per field of `answer`, the extensions whose words it holds, in order. */
  readonly owners: { readonly [Field in keyof Answer]?: readonly string[] };
  /** Whose cancellation came first, if any did. A handler that failed cancels if it is critical, or lacked a member. */
  readonly cancelled: { readonly by: string; readonly reason: string | null } | null;
  /** The signal of the context ended the asking; handlers that were left have not been asked. */
  readonly aborted: boolean;
  /** All reports of this run; the host's `onReport` had them as well. */
  readonly reports: readonly ExtensionReport[];
}

const lacksMember = (error: unknown): boolean =>
  error instanceof ExtensionError && error.code === "missing-member";

/**
 * Asks every handler, one after the other, also after one has cancelled: an early cancel must not hide that a later
 * handler fails or disagrees. Any cancellation wins.
 */
export async function runDecide<Answer extends object>(
  hook: DecideHook<object, Answer>,
  payload: object,
  handlers: Iterable<Registration>,
  environment: RunEnvironment,
): Promise<Decision<Answer>> {
  const { signal } = environment.context;
  const eventFor = eventsOf(hook.name, payload);
  const answers: OwnedAnswer[] = [];
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
      // A guard that cannot ask must not let through.
      if (critical || lacksMember(outcome.failure.error))
        cancelled ??= { by: owner, reason: outcome.failure.message };
      continue;
    }
    const judged = judgeAnswer(hook, payload, outcome.answer, alias);
    if (judged.kind === "cancel") cancelled ??= { by: owner, reason: judged.reason };
    else if (judged.kind === "refused") report(reportInvalid(registration, judged.reason, judged.error));
    else {
      answers.push({ owner, answer: judged.fields });
      for (const field of judged.unknown)
        report(reportUnknownField(registration, field, Object.keys(hook.fields)));
    }
  }

  const merged = mergeAnswers(hook.fields, answers);
  for (const { field, standing, refused } of merged.conflicts) {
    report(reportConflict(hook.name, field, standing, refused));
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
