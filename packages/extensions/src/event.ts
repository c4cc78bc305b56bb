import { deepFreeze } from "./freeze.ts";
import type { HookAlias } from "./hook-alias.ts";

/** Gives a handler its event; null where the alias it registered under is not for this payload. */
export type EventFor = (alias: HookAlias | null) => object | null;

/**
 * The events of one run: a frozen object for the hook and one for each alias, made when a handler needs it.
 * Freezes what `payload` holds, in place, but not `payload` itself.
 */
export function eventsOf(hookName: string, payload: object): EventFor {
  let own: object | undefined;
  const aliased = new Map<HookAlias, object | null>();

  return (alias) => {
    own ??= deepFreeze({ ...payload, type: hookName });
    if (alias === null) return own;
    let event = aliased.get(alias);
    if (event === undefined) {
      event = alias.when(own) ? deepFreeze({ ...alias.map(own), type: alias.name }) : null;
      aliased.set(alias, event);
    }
    return event;
  };
}
