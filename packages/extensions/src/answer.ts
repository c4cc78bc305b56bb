// Separate from run.ts: it judges answers without running a handler.
import {
  type DecideHook,
  describeThrown,
  type HookAlias,
  type MergeRule,
  type Registration,
} from "./hook.ts";

/** Result of checking one answer to a decide hook. */
type JudgedAnswer =
  | { readonly kind: "cancel"; readonly reason: string | null }
  | { readonly kind: "refused"; readonly reason: string; readonly error?: unknown }
  /** No fields mean no opinion. `unknown` has names that the hook does not have. */
  | { readonly kind: "fields"; readonly fields: FieldValues; readonly unknown: readonly string[] };

type MergeRulesByName = Readonly<Record<string, MergeRule>>;

type FieldValues = Readonly<Record<string, unknown>>;

/**
 * Checks one answer. A cancellation counts even with other fields. The returned fields are a copy, so a later change of
 * the owner's objects cannot make them invalid.
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
    // A getter of the answer, a value that cannot be cloned, or the hook's own validation threw.
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

/** Merges answers by top-level field. Pure. `answers` are in the order in which the handlers were called. */
export function mergeAnswers(
  rules: MergeRulesByName,
  answers: readonly { owner: string; answer: FieldValues }[],
) {
  const answer: Record<string, unknown> = {};
  /** For each field of the answer, the owners of its value, in order. */
  const owners: Record<string, readonly string[]> = {};
  /** Two handlers answered a field that takes one answer. */
  const conflicts: { field: string; standing: string; refused: string }[] = [];
  for (const [field, rule] of Object.entries(rules)) {
    const given = answers.filter((one) => Object.hasOwn(one.answer, field));
    const first = given[0];
    if (!first) continue;
    const values = given.map((one) => one.answer[field]);
    if (rule === "one") {
      answer[field] = values[0];
      owners[field] = [first.owner];
      for (const { owner } of given.slice(1))
        conflicts.push({ field, standing: first.owner, refused: owner });
    } else {
      answer[field] = rule === "join" ? values.join("\n\n") : values.includes(true);
      owners[field] = given.map((one) => one.owner);
    }
  }
  return { answer, owners, conflicts };
}

/**
 * Kind of report:
 *
 * - `threw`, `timed-out`: a handler was skipped or, if it is critical, stopped the operation;
 * - `invalid-answer`: an answer, a field of it, or the value that a handler of a transform hook left, was refused;
 * - `unused-answer`: an answer is valid, but the caller did not use it;
 * - `conflict`: two handlers answered a field that takes one answer;
 * - `late-rejection`: a handler failed after the host had stopped waiting for it;
 * - `missing-member`: an extension uses a member that this host does not have, and continues without it;
 * - `failed-act`: an operation failed that an extension started without waiting for it;
 * - `refused-load`: an extension was not loaded;
 * - `unknown-hook`: a handler was registered for a hook that this host does not have.
 */
export type ReportKind =
  | "threw"
  | "timed-out"
  | "invalid-answer"
  | "unused-answer"
  | "conflict"
  | "late-rejection"
  | "missing-member"
  | "failed-act"
  | "refused-load"
  | "unknown-hook";

/** A problem for the user of extensions. Nothing is printed here; the host's `onReport` receives it. */
export interface ExtensionReport {
  readonly kind: ReportKind;
  /** Extensions with the problem. For a conflict, the first one is the extension whose answer is used. */
  readonly owners: readonly string[];
  /** Name under which the handler was registered; for a conflict, the hook's own name; null for a load or a setup. */
  readonly hook: string | null;
  /** Message for people, of one or two sentences. */
  readonly message: string;
  /** The thrown value; absent when nothing was thrown. */
  readonly error?: unknown;
}

/** Returns a report about a handler's call. */
export function reportOn(
  { owner, hookName: hook }: Registration,
  kind: ReportKind,
  message: string,
  error?: unknown,
): ExtensionReport {
  return { kind, owners: [owner], hook, message, ...(error === undefined ? {} : { error }) };
}

/** Returns the event for a handler; null when its alias is not for this payload. */
type EventFor = (alias: HookAlias | null) => object | null;

/**
 * Returns the events of one run: a frozen object for the hook and one for each alias, created when a handler needs it.
 * Freezes the values in `payload` in place, but not `payload` itself.
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

/** Objects that are frozen with all their values, so that a value passed to several hooks is walked once. */
const frozen = new WeakSet<object>();

/**
 * Freezes plain objects and arrays and their values in place, at any depth. Other values are not frozen: an
 * `AbortSignal`, a `Map` or `Set`, a buffer, an instance of a class, and values of getters.
 */
export function deepFreeze<Value>(value: Value): Value {
  const walked = new Set<object>();
  const open: unknown[] = [value];
  while (open.length > 0) {
    const next = open.pop();
    if (!isPlain(next) || walked.has(next) || frozen.has(next)) continue;
    walked.add(next);
    Object.freeze(next);
    for (const key of Reflect.ownKeys(next)) {
      open.push(Object.getOwnPropertyDescriptor(next, key)?.value);
    }
  }
  // Added at the end: a walk that throws on a revoked proxy must not count as done.
  for (const object of walked) frozen.add(object);
  return value;
}

/** Returns whether a value is an array, or an object whose prototype is null or the `Object.prototype` of a realm. */
function isPlain(value: unknown): value is object {
  if (typeof value !== "object" || value === null) return false;
  if (Array.isArray(value)) return true;
  const prototype = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}
