import { ExtensionError } from "./extension-error.ts";
import type { Handler, HandlerOptions } from "./handler.ts";
import type { Hook } from "./hook.ts";
import { isHookAlias } from "./hook-alias.ts";
import type { HookSet } from "./hook-set.ts";
import type { Registration, Registry } from "./registry.ts";
import { type ExtensionReport, reportUnknownHook } from "./report.ts";
import { refuseTimeLimit } from "./time-limit.ts";

/** What an extension is given. `Hooks` maps the names it may use to the hooks behind them. */
export interface ExtensionApi<Hooks extends HookSet, Context> {
  /**
   * Registers a handler under a hook's name; returns the function that removes it. A name that this host does not have
   * is reported and otherwise harmless, so that an extension written for more hooks still runs.
   * Throws `ExtensionError` `bad-handler`, and `unregistered` once the extension was removed.
   */
  on<Name extends keyof Hooks & string>(
    hook: Name,
    handler: Handler<Hooks[Name], Name, Context>,
    options?: HandlerOptions,
  ): () => void;
  /** The same with the hook itself in place of its name. */
  on<One extends Hook>(
    hook: One,
    handler: Handler<One, string, Context>,
    options?: HandlerOptions,
  ): () => void;
}

/** An api, and the function that takes back all that was done with it. */
export interface OwnedApi<Hooks extends HookSet, Context> {
  readonly api: ExtensionApi<Hooks, Context>;
  readonly remove: () => void;
}

export function createExtensionApi<Hooks extends HookSet, Context>(
  owner: string,
  hooks: Hooks,
  registry: Registry,
  report: (report: ExtensionReport) => void,
): OwnedApi<Hooks, Context> {
  const removers = new Set<() => void>();
  let removed = false;

  function on(
    hook: string | Hook,
    handler: Registration["handler"],
    options: HandlerOptions = {},
  ): () => void {
    const name = typeof hook === "string" ? hook : hook.name;
    if (removed) {
      const message = `${owner} was removed and can no longer register for "${name}".`;
      throw new ExtensionError("unregistered", message, { owner });
    }
    // By name: an extension may hold another instance of the module that defines the hook.
    const known = Object.hasOwn(hooks, name) ? hooks[name] : undefined;
    if (known === undefined) {
      report(reportUnknownHook(owner, name));
      return () => {};
    }
    const registration = readRegistration(owner, known, handler, options);
    const remove = registry.add(registration.alias?.of ?? name, registration);
    removers.add(remove);
    return () => {
      removers.delete(remove);
      remove();
    };
  }

  return {
    api: { on } as ExtensionApi<Hooks, Context>,
    remove() {
      removed = true;
      for (const remove of removers) remove();
      removers.clear();
    },
  };
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
