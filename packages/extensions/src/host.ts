import { type Clock, systemClock } from "./clock.ts";
import type { DecideHook } from "./decide-hook.ts";
import { createExtensionApi, type ExtensionApi } from "./extension-api.ts";
import { describeThrown, ExtensionError } from "./extension-error.ts";
import type { HandlerContext } from "./handler.ts";
import type { RunEnvironment } from "./handler-call.ts";
import type { Hook } from "./hook.ts";
import { isHookAlias } from "./hook-alias.ts";
import { checkHookSet, type HookSet } from "./hook-set.ts";
import { callWithin } from "./limited-call.ts";
import type { NotifyHook } from "./notify-hook.ts";
import { createRegistry } from "./registry.ts";
import { type ExtensionReport, reportLateSetup } from "./report.ts";
import { type Decision, runDecide } from "./run-decide.ts";
import { runNotify } from "./run-notify.ts";
import { runTransform } from "./run-transform.ts";
import { HANDLER_LIMIT_MS } from "./time-limit.ts";
import type { TransformHook } from "./transform-hook.ts";

/** What an extension module exports by default. */
export type ExtensionSetup<Api> = (api: Api) => void | Promise<void>;

/** What a host is made of. */
export interface ExtensionHostOptions<Hooks extends HookSet> {
  /** The hooks there are, each under its own name. */
  hooks: Hooks;
  /** Gets every report, as it happens. Default: nobody hears of them. */
  onReport?: (report: ExtensionReport) => void;
  /** Measures how long handlers take; tests pass their own. Default: the system's. */
  clock?: Clock;
}

/** Holds the handlers of all extensions and runs the hooks. */
export interface ExtensionHost<Hooks extends HookSet, Context extends HandlerContext = HandlerContext> {
  /**
   * Runs the setup of an extension and returns the function that removes the extension again. A setup that throws, or
   * takes longer than 10 s, leaves no handler behind: `ExtensionError` `setup-failed`.
   */
  register(owner: string, setup: ExtensionSetup<ExtensionApi<Hooks, Context>>): Promise<() => void>;
  /** Whether anybody listens; asked before a payload is made that costs something. An alias has its hook's listeners. */
  has(hook: Hook): boolean;
  /**
   * Resolves when all handlers were told; `critical-handler-failed` if one failed that must not.
   * Freezes what the payload holds.
   */
  notify<Payload extends object>(
    hook: NotifyHook<Payload>,
    payload: NoInfer<Payload>,
    context: Context,
  ): Promise<void>;
  /**
   * The value after all handlers, frozen with what it shares with `value`; without handlers `value` as it is.
   * Errors: `critical-handler-failed`, `aborted`.
   */
  transform<Value, Field extends string>(
    hook: TransformHook<Value, Field>,
    value: NoInfer<Value>,
    context: Context,
  ): Promise<Value>;
  /** What the handlers say together. Freezes what the payload holds. */
  decide<Payload extends object, Answer extends object>(
    hook: DecideHook<Payload, Answer>,
    payload: NoInfer<Payload>,
    context: Context,
  ): Promise<Decision<Answer>>;
  /** Hands a report to `onReport`, for those who load extensions. */
  report(report: ExtensionReport): void;
}

/** Makes a host without extensions. Throws `ExtensionError` `bad-hook` for hooks that cannot stand together. */
export function createExtensionHost<Hooks extends HookSet, Context extends HandlerContext = HandlerContext>(
  options: ExtensionHostOptions<Hooks>,
): ExtensionHost<Hooks, Context> {
  const { hooks, onReport: report = () => {}, clock = systemClock } = options;
  checkHookSet(hooks);
  const registry = createRegistry();

  function handlersOf(hook: Hook) {
    if (Object.hasOwn(hooks, hook.name)) return registry.walk(hook.name);
    throw new ExtensionError(
      "unknown-hook",
      `"${hook.name}" is not a hook of this host; add it to its hooks.`,
    );
  }
  const environmentOf = (context: Context): RunEnvironment => ({ context, clock, report });

  return {
    async register(owner, setup) {
      const { api, remove } = createExtensionApi<Hooks, Context>(owner, hooks, registry, report);
      const outcome = await callWithin(() => setup(api), {
        timeoutMs: HANDLER_LIMIT_MS,
        clock,
        onLate: (error) => report(reportLateSetup(owner, error)),
      });
      if (outcome.kind === "answered") return remove;
      remove();
      const why =
        outcome.kind === "threw"
          ? describeThrown(outcome.error)
          : `it took more than ${HANDLER_LIMIT_MS} ms; move what it awaits into a handler.`;
      const cause = outcome.kind === "threw" ? { cause: outcome.error } : {};
      throw new ExtensionError("setup-failed", `The extension ${owner} could not be set up: ${why}`, {
        owner,
        ...cause,
      });
    },
    has: (hook) => registry.has(isHookAlias(hook) ? hook.of : hook.name),
    notify: async (hook, payload, context) =>
      runNotify(hook, payload, handlersOf(hook), environmentOf(context)),
    transform: async (hook, value, context) =>
      runTransform(hook, value, handlersOf(hook), environmentOf(context)),
    decide: async (hook, payload, context) =>
      runDecide(hook, payload, handlersOf(hook), environmentOf(context)),
    report,
  };
}
