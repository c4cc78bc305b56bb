import { ExtensionError } from "./extension-error.ts";
import { type Hook, type HookOptions, hookTimeLimit } from "./hook.ts";

/**
 * One value passes through all handlers, in order; each gets what the one before left.
 * The event is `{type, [field]: value}`, a draft: a handler changes it, assigns to it, or returns `{[field]: other}`.
 */
export interface TransformHook<Value = unknown, Field extends string = string> extends Hook<Value> {
  readonly mode: "transform";
  /** Where handlers find the value in the event, such as `messages`. */
  readonly field: Field;
  /** Why a changed value cannot stand, as a sentence; undefined if it can. */
  validate?(value: Value): string | undefined;
}

/** What a transform hook is made of. */
export interface TransformHookOptions<Value, Field extends string> extends HookOptions {
  /** Where handlers find the value in the event; anything but `type`. */
  field: Field;
  /** Why a changed value cannot stand, as a sentence; undefined if it can. Default: every value stands. */
  validate?: (value: Value) => string | undefined;
}

/** Throws `ExtensionError` `bad-hook` for the field `type`, which holds the hook's name. */
export function transformHook<Value, Field extends string>(
  name: string,
  options: TransformHookOptions<Value, Field>,
): TransformHook<Value, Field> {
  const { field, validate } = options;
  if ((field as string) === "type") {
    throw new ExtensionError("bad-hook", `The hook "${name}" cannot have the field "type"; choose another.`);
  }
  const timeoutMs = hookTimeLimit(name, options);
  return { mode: "transform", name, timeoutMs, field, ...(validate && { validate }) };
}
