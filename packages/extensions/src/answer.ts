import type { DecideHook } from "./decide-hook.ts";
import { describeThrown } from "./extension-error.ts";
import type { HookAlias } from "./hook-alias.ts";
import type { MergeRule } from "./merge.ts";

/** What one answer to a decide hook turned out to be. */
export type JudgedAnswer =
  | { readonly kind: "cancel"; readonly reason: string | null }
  | { readonly kind: "refused"; readonly reason: string; readonly error?: unknown }
  /** Without fields it is neutral; `unknown` are names that the hook does not have. */
  | { readonly kind: "fields"; readonly fields: FieldValues; readonly unknown: readonly string[] };

type MergeRulesByName = Readonly<Record<string, MergeRule>>;
type FieldValues = Readonly<Record<string, unknown>>;

/**
 * Judges one answer, alone. A cancellation stands whatever else the answer holds. The fields are a copy, so that what
 * was found valid is what is used, whatever the owner does to its objects later.
 */
export function judgeAnswer(
  hook: DecideHook,
  payload: object,
  given: unknown,
  alias: HookAlias | null,
): JudgedAnswer {
  const refuse = (reason: string, error?: unknown): JudgedAnswer => ({ kind: "refused", reason, error });
  if (given === undefined || given === null) return { kind: "fields", fields: {}, unknown: [] };
  if (typeof given !== "object" || Array.isArray(given)) {
    return refuse(`it is ${Array.isArray(given) ? "an array" : `a ${typeof given}`}, not an object.`);
  }
  try {
    const { cancel, reason, ...rest } = (alias ? alias.mapAnswer(given) : given) as Record<string, unknown>;
    if (cancel === true) return { kind: "cancel", reason: typeof reason === "string" ? reason : null };
    if (cancel !== undefined && cancel !== null && cancel !== false) {
      return refuse(`"cancel" must be true or false, not a ${typeof cancel}.`);
    }
    const { fields, unknown, misfit } = readFields(hook.fields as MergeRulesByName, rest);
    if (misfit !== undefined) return refuse(misfit);
    const refusal = Object.keys(fields).length > 0 ? hook.validate?.(fields, payload) : undefined;
    return refusal === undefined ? { kind: "fields", fields, unknown } : refuse(refusal);
  } catch (error) {
    // From a getter of the answer, from a value that is no data and cannot be copied, or from the hook's own validation.
    return refuse(describeThrown(error), error);
  }
}

function readFields(rules: MergeRulesByName, given: FieldValues) {
  const fields: Record<string, unknown> = {};
  const unknown: string[] = [];
  for (const [field, value] of Object.entries(given)) {
    if (value === undefined || value === null) continue;
    const rule = Object.hasOwn(rules, field) ? rules[field] : undefined;
    const wanted = rule === "join" ? "string" : rule === "any" ? "boolean" : typeof value;
    if (rule === undefined) unknown.push(field);
    else if (typeof value !== wanted) return { fields, unknown, misfit: `"${field}" must be a ${wanted}.` };
    else if (rule !== "join" || value !== "") fields[field] = structuredClone(value);
  }
  return { fields, unknown, misfit: undefined };
}
