import { ExtensionError } from "./extension-error.ts";
import type { Hook } from "./hook.ts";
import { isHookAlias } from "./hook-alias.ts";

/** Hooks and aliases by their names. */
export type HookSet = Readonly<Record<string, Hook>>;

/** Throws `ExtensionError` `bad-hook` where a key is not the hook's name, or an alias is for a hook that is not there. */
export function checkHookSet(hooks: HookSet): void {
  for (const [name, hook] of Object.entries(hooks)) {
    if (hook.name !== name) {
      throw new ExtensionError(
        "bad-hook",
        `The hook "${hook.name}" stands under "${name}"; use its own name.`,
      );
    }
    if (isHookAlias(hook) && !Object.hasOwn(hooks, hook.of)) {
      throw new ExtensionError(
        "bad-hook",
        `"${name}" is an alias of "${hook.of}", which the host lacks; add it.`,
      );
    }
  }
}
