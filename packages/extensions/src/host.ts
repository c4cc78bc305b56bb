import type { ExtensionReport } from "./answer.ts";
import {
  badHook,
  type DecideHook,
  describeThrown,
  ExtensionError,
  type ExtensionSetup,
  HANDLER_LIMIT_MS,
  type Handler,
  type HandlerContext,
  type HandlerOptions,
  type Hook,
  type HookAlias,
  type HookSet,
  type NotifyHook,
  type Registration,
  refuseTimeLimit,
  type TransformHook,
} from "./hook.ts";
import {
  type Clock,
  callWithin,
  type Decision,
  type RunEnvironment,
  runDecide,
  runNotify,
  runTransform,
  systemClock,
} from "./run.ts";

/** Options of a host. */
export interface ExtensionHostOptions<Hooks extends HookSet> {
  /** Hooks of the host, each under its own name. */
  hooks: Hooks;
  /** Receives every report when it occurs. Default: reports are dropped. */
  onReport?: (report: ExtensionReport) => void;
  /** Measures the time limits of handlers and setups; tests pass their own. Default: the system's clock. */
  clock?: Clock;
}

/** Stores the handlers of all extensions and runs the hooks. */
export interface ExtensionHost<Hooks extends HookSet, Context extends HandlerContext = HandlerContext> {
  /**
   * Runs the setup of an extension. Returns the function that removes the extension with all its handlers. Throws
   * `ExtensionError` `setup-failed` when the setup throws or takes longer than 10 s; no handler is left then.
   */
  register(owner: string, setup: ExtensionSetup<ExtensionApi<Hooks, Context>>): Promise<() => void>;
  /**
   * Returns whether a hook has handlers, so that a costly payload is built only when needed. An alias has the handlers
   * of its hook. False for a hook that the host does not have.
   */
  has(hook: Hook): boolean;
  /**
   * Calls all handlers and resolves after the last one. Throws `critical-handler-failed` if a critical one failed,
   * after all have been called, and `unknown-hook`. Freezes the values in the payload.
   */
  notify<Payload extends object>(
    hook: NotifyHook<Payload>,
    payload: NoInfer<Payload>,
    context: Context,
  ): Promise<void>;
  /**
   * Returns the value after all handlers, frozen together with the parts that it shares with `value`; without handlers,
   * `value` itself. Throws `critical-handler-failed` and `aborted` at once, and `unknown-hook`.
   */
  transform<Value, Field extends string>(
    hook: TransformHook<Value, Field>,
    value: NoInfer<Value>,
    context: Context,
  ): Promise<Value>;
  /** Returns the merged answers of the handlers. Freezes the values in the payload. Throws `unknown-hook`. */
  decide<Payload extends object, Answer extends object>(
    hook: DecideHook<Payload, Answer>,
    payload: NoInfer<Payload>,
    context: Context,
  ): Promise<Decision<Answer>>;
  /** Passes a report to `onReport`. For programs that load extensions. */
  report(report: ExtensionReport): void;
}

/**
 * Makes a host without extensions. Throws `ExtensionError` `bad-hook` when a key of `hooks` is not the hook's name, or
 * an alias has no notify or decide hook among `hooks`.
 */
export function createExtensionHost<Hooks extends HookSet, Context extends HandlerContext = HandlerContext>(
  options: ExtensionHostOptions<Hooks>,
): ExtensionHost<Hooks, Context> {
  const { hooks, onReport: report = () => {}, clock = systemClock } = options;
  checkHookSet(hooks);
  /**
   * Handlers by hook, in order. A list is replaced, never changed, so that a run continues with the list at its
   * start.
   */
  const lists = new Map<string, readonly Registration[]>();
  const listOf = (hookName: string) => lists.get(hookName) ?? [];

  /** Yields the handlers at the start of a run, except those that are removed before their turn. */
  function* walk(hookName: string): Generator<Registration> {
    for (const registration of listOf(hookName))
      if (listOf(hookName).includes(registration)) yield registration;
  }

  function handlersOf(hook: Hook) {
    if (Object.hasOwn(hooks, hook.name)) return walk(hook.name);
    throw new ExtensionError(
      "unknown-hook",
      `"${hook.name}" is not a hook of this host; add it to its hooks.`,
    );
  }
  const environmentOf = (context: Context): RunEnvironment => ({ context, clock, report });

  return {
    async register(owner, setup) {
      const own = new Set<Registration>();
      let isRemoved = false;
      const on = (
        hook: string | Hook,
        handler: Registration["handler"],
        handlerOptions: HandlerOptions = {},
      ) => {
        const name = typeof hook === "string" ? hook : hook.name;
        if (isRemoved) {
          const message = `${owner} was removed and can no longer register for "${name}".`;
          throw new ExtensionError("unregistered", message, { owner });
        }
        // Hooks are compared by name: an extension can have another instance of the module that defines a hook.
        const known = Object.hasOwn(hooks, name) ? hooks[name] : undefined;
        if (known === undefined) {
          const message = `${owner} registered for "${name}", a hook that does not exist here; that handler is never called.`;
          report({ kind: "unknown-hook", owners: [owner], hook: name, message });
          return () => {};
        }
        const registration = readRegistration(owner, known, handler, handlerOptions);
        const hookName = registration.alias?.of ?? name;
        const list = listOf(hookName);
        const found = list.findIndex(({ priority }) => priority < registration.priority);
        lists.set(hookName, list.toSpliced(found === -1 ? list.length : found, 0, registration));
        own.add(registration);
        return () => {
          own.delete(registration);
          lists.set(
            hookName,
            listOf(hookName).filter((other) => other !== registration),
          );
        };
      };
      const remove = () => {
        isRemoved = true;
        for (const [hookName, list] of lists)
          lists.set(
            hookName,
            list.filter((one) => !own.has(one)),
          );
      };
      const api = { on } as ExtensionApi<Hooks, Context>;
      const outcome = await callWithin(() => setup(api), {
        timeoutMs: HANDLER_LIMIT_MS,
        clock,
        onLate(error) {
          const message = `The setup of ${owner} failed after the host had stopped waiting for it: ${describeThrown(error)}`;
          report({ kind: "late-rejection", owners: [owner], hook: null, message, error });
        },
      });
      if (outcome.kind === "answered") return remove;
      remove();
      const why =
        outcome.kind === "threw"
          ? describeThrown(outcome.error)
          : `it took more than ${HANDLER_LIMIT_MS} ms; move the awaited work into a handler.`;
      const cause = outcome.kind === "threw" ? { cause: outcome.error } : {};
      throw new ExtensionError("setup-failed", `The extension ${owner} could not be set up: ${why}`, {
        owner,
        ...cause,
      });
    },
    has: (hook) => listOf(isHookAlias(hook) ? hook.of : hook.name).length > 0,
    notify: async (hook, payload, context) =>
      runNotify(hook, payload, handlersOf(hook), environmentOf(context)),
    transform: async (hook, value, context) =>
      runTransform(hook, value, handlersOf(hook), environmentOf(context)),
    decide: async (hook, payload, context) =>
      runDecide(hook, payload, handlersOf(hook), environmentOf(context)),
    report,
  };
}

/** Api of an extension. `Hooks` maps each name that the extension can use to its hook. */
export interface ExtensionApi<Hooks extends HookSet, Context> {
  /**
   * Registers a handler under a hook's name; returns the function that removes it. An unknown name is reported and has
   * no other effect, so that an extension written for more hooks still runs. Throws `ExtensionError` `bad-handler`, and
   * `unregistered` after the extension was removed.
   */
  on<Name extends keyof Hooks & string>(
    hook: Name,
    handler: Handler<Hooks[Name], Name, Context>,
    options?: HandlerOptions,
  ): () => void;
  /** Same, for a hook given as a value. The host finds its own hook by the value's name. */
  on<One extends Hook>(
    hook: One,
    handler: Handler<One, string, Context>,
    options?: HandlerOptions,
  ): () => void;
}

function readRegistration(
  owner: string,
  hook: Hook,
  handler: Registration["handler"],
  options: HandlerOptions,
): Registration {
  const { priority = 0, critical = false, timeoutMs = hook.timeoutMs } = options;
  const refuse = (what: string) =>
    new ExtensionError("bad-handler", `${owner} registers for ${hook.name} with ${what}`, { owner });
  if (typeof handler !== "function")
    throw refuse(`a ${typeof handler}; give a function (event, ctx) => answer.`);
  if (!Number.isFinite(priority)) throw refuse(`the priority ${priority}; give a number, higher is earlier.`);
  const refusal = refuseTimeLimit(timeoutMs);
  if (refusal !== undefined) throw refuse(refusal);
  const alias = isHookAlias(hook) ? hook : null;
  return { owner, hookName: hook.name, alias, handler, priority, critical, timeoutMs };
}

const isHookAlias = (hook: Hook): hook is HookAlias => hook.mode === "alias";

/** Throws as {@link createExtensionHost}. */
function checkHookSet(hooks: HookSet): void {
  for (const [name, hook] of Object.entries(hooks)) {
    if (hook.name !== name)
      throw badHook(`The hook "${hook.name}" is registered as "${name}"; use its own name.`);
    if (!isHookAlias(hook)) continue;
    const target = hooks[hook.of];
    if (target?.mode === "notify" || target?.mode === "decide") continue;
    const problem = !target
      ? "the host lacks; add it"
      : `is ${target.mode === "alias" ? "an alias" : "a transform hook"}; make it an alias of a notify or decide hook`;
    throw badHook(`"${name}" is an alias of "${hook.of}", which ${problem}.`);
  }
}
