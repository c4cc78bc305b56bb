import { type Hook, type HookOptions, hookTimeLimit } from "./hook.ts";

/** Something happened: every handler is told, in order, and what they return is not looked at. */
export interface NotifyHook<Payload extends object = object> extends Hook<Payload> {
  readonly mode: "notify";
}

/** A hook whose handlers are told something and asked nothing. */
export function notifyHook<Payload extends object>(
  name: string,
  options: HookOptions = {},
): NotifyHook<Payload> {
  return { mode: "notify", name, timeoutMs: hookTimeLimit(name, options) };
}
