import {
  type DecideHook,
  describeThrown,
  type HookAlias,
  type MergeRule,
  type Registration,
} from "./hook.ts";

/** Judgement of one answer to a decide hook. */
type JudgedAnswer =
  | { readonly kind: "cancel"; readonly reason: string | null }
  | { readonly kind: "refused"; readonly reason: string; readonly error?: unknown }
  /** Without fields it is neutral; `unknown` are names that the hook does not have. */
  | { readonly kind: "fields"; readonly fields: FieldValues; readonly unknown: readonly string[] };

type MergeRulesByName = Readonly<Record<string, MergeRule>>;

type FieldValues = Readonly<Record<string, unknown>>;

/**
 * Judges one answer, alone. A cancellation counts even beside other fields. The fields are a copy, so that what
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

/** Merges answers by top-level field. Pure; `answers` are in the order in which their handlers were asked. */
export function mergeAnswers(
  rules: MergeRulesByName,
  answers: readonly { owner: string; answer: FieldValues }[],
) {
  const answer: Record<string, unknown> = {};
  /** Per field of the answer, whose words it holds, in order. */
  const owners: Record<string, readonly string[]> = {};
  /** Two handlers answered a field that has room for one answer. */
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
 * - `threw`, `timed-out`: a handler was skipped, or, being critical, stopped what was going on;
 * - `invalid-answer`: an answer, or a field of it, was refused;
 * - `unused-answer`: an answer is valid, and the caller had no use for it;
 * - `conflict`: two owners answered what has room for one;
 * - `late-rejection`: a handler failed after it had been given up;
 * - `missing-member`: an extension uses something that this host does not have, and goes on without it;
 * - `failed-act`: something an extension began, and does not wait for, failed;
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

/** Something the user of extensions should hear about. Nothing is printed here; the host's `onReport` gets it. */
export interface ExtensionReport {
  readonly kind: ReportKind;
  /** Extensions it is about; for a conflict first the one whose answer is used. */
  readonly owners: readonly string[];
  /** The name the handler was registered under; null where it is about loading. */
  readonly hook: string | null;
  /** One sentence or two, for people. */
  readonly message: string;
  /** The thrown value, where there was one. */
  readonly error?: unknown;
}

/** Builds a report on a handler's call. */
export function reportOn(
  { owner, hookName: hook }: Registration,
  kind: ReportKind,
  message: string,
  error?: unknown,
): ExtensionReport {
  return { kind, owners: [owner], hook, message, ...(error === undefined ? {} : { error }) };
}

/** Gives a handler its event; null where the alias it registered under is not for this payload. */
type EventFor = (alias: HookAlias | null) => object | null;

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

/** Objects that were frozen here with all they hold; a value handed to several hooks is walked once. */
const frozen = new WeakSet<object>();

/**
 * Freezes plain objects and arrays, and what they hold, in place. Everything else stays as it is: an `AbortSignal`,
 * a `Map` or `Set`, a buffer, an instance of a class, and values of getters. Any depth will do.
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
  // Only now: a walk that met a revoked proxy has thrown, and must not count as done.
  for (const object of walked) frozen.add(object);
  return value;
}

/** An array, or an object whose prototype is null or at the root of a realm. */
function isPlain(value: unknown): value is object {
  if (typeof value !== "object" || value === null) return false;
  if (Array.isArray(value)) return true;
  const prototype = Object.getPrototypeOf(value);
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}
