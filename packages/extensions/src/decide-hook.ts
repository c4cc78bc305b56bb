import { ExtensionError } from "./extension-error.ts";
import { type Hook, type HookOptions, hookTimeLimit } from "./hook.ts";
import type { MergeRule } from "./merge.ts";

/** How the answers of several handlers become one, field by field. */
export type MergeRules<Answer> = {
  readonly [Field in keyof Answer]-?: NonNullable<Answer[Field]> extends string
    ? Extract<MergeRule, "one" | "join">
    : NonNullable<Answer[Field]> extends boolean
      ? Extract<MergeRule, "one" | "any">
      : "one";
};

/** What every handler of a decide hook may say besides the hook's own fields. */
export interface Cancellation {
  /** True: what was about to happen does not. One handler is enough. */
  cancel?: boolean;
  /** Why, for whoever asked for it. */
  reason?: string;
}

/** All handlers are asked, in order; each answer is validated alone, and those that stand are merged. */
export interface DecideHook<Payload extends object = object, Answer extends object = object>
  extends Hook<Payload, Answer> {
  readonly mode: "decide";
  /** How each field is merged where several handlers give it. */
  readonly fields: MergeRules<Answer>;
  /** Why this one answer cannot stand, as a sentence; undefined if it can. Not asked about a cancellation. */
  validate?(answer: Partial<Answer>, payload: Readonly<Payload>): string | undefined;
}

/** What a decide hook is made of. */
export interface DecideHookOptions<Payload, Answer> extends HookOptions {
  /** How each field of the answer is merged where several handlers give it: `one`, `any` or `join`. */
  fields: MergeRules<Answer>;
  /** Why an answer cannot stand, as a sentence; undefined if it can. Default: every answer stands. */
  validate?: (answer: Partial<Answer>, payload: Readonly<Payload>) => string | undefined;
}

/** Throws `ExtensionError` `bad-hook` for the fields `cancel` and `reason`, which every decide hook has. */
export function decideHook<Payload extends object, Answer extends object>(
  name: string,
  options: DecideHookOptions<Payload, Answer>,
): DecideHook<Payload, Answer> {
  const { fields, validate } = options;
  for (const field of ["cancel", "reason"]) {
    if (!Object.hasOwn(fields, field)) continue;
    throw new ExtensionError(
      "bad-hook",
      `The hook "${name}" has "${field}" by itself; leave it out of fields.`,
    );
  }
  const timeoutMs = hookTimeLimit(name, options);
  return { mode: "decide", name, timeoutMs, fields, ...(validate && { validate }) };
}
