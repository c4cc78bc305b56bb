import type { Draft } from "immer";

/** Members of a hook of any mode. */
export interface Hook<Payload = unknown, Answer = unknown> {
  /** Treatment of the answers: ignored, passed on as one value, or merged. `alias` is another name for a hook. */
  readonly mode: "notify" | "transform" | "decide" | "alias";
  /** Name in `api.on(name, …)` and in `event.type`. */
  readonly name: string;
  /** Time limit of one handler, in milliseconds. */
  readonly timeoutMs: number;
  /** Used only by the type checker; never set. */
  readonly types?: { readonly payload: Payload; readonly answer: Answer };
}

/** Options of every hook. */
export interface HookOptions {
  /** Time limit in milliseconds. Default `HANDLER_LIMIT_MS`. Use `LONG_HANDLER_LIMIT_MS` when handlers may call a model. */
  timeoutMs?: number;
}

/** Returns the time limit of a new hook; throws `ExtensionError` `bad-hook` for a limit that timers do not support. */
function hookTimeLimit(name: string, options: HookOptions): number {
  const { timeoutMs = HANDLER_LIMIT_MS } = options;
  const refusal = refuseTimeLimit(timeoutMs);
  if (refusal !== undefined) throw badHook(`The hook "${name}" has ${refusal}`);
  return timeoutMs;
}

/** Hook that reports an event. Every handler is called, in order, and its return value is ignored. */
export interface NotifyHook<Payload extends object = object> extends Hook<Payload> {
  readonly mode: "notify";
}

/** Makes a notify hook. Throws `ExtensionError` `bad-hook` for a time limit that timers do not support. */
export function notifyHook<Payload extends object>(
  name: string,
  options: HookOptions = {},
): NotifyHook<Payload> {
  return { mode: "notify", name, timeoutMs: hookTimeLimit(name, options) };
}

/**
 * Hook that passes one value through all handlers, in order. Each handler gets the value that the handler before it
 * left. The event is `{type, [field]: value}`, a draft: a handler changes it, assigns to it, or returns
 * `{[field]: other}`.
 */
export interface TransformHook<Value = unknown, Field extends string = string> extends Hook<Value> {
  readonly mode: "transform";
  /** Field of the value in the event, such as `messages`; any name except `type`. */
  readonly field: Field;
  /**
   * Returns the reason to refuse the value that a handler left, as a sentence, or throws an error with it; undefined to
   * accept the value. Called for every changed value, with the value before the change. Default: accepts every value.
   */
  validate?(value: Value, given: Value): string | undefined;
}

/** Options of a transform hook. */
export interface TransformHookOptions<Value, Field extends string>
  extends HookOptions,
    Pick<TransformHook<Value, Field>, "field"> {
  /** Returns the reason to refuse the value that a handler made of `given`; undefined to accept it. Default: accepts all. */
  validate?: (value: Value, given: Value) => string | undefined;
}

/**
 * Makes a transform hook. Throws `ExtensionError` `bad-hook` for the field `type`, which holds the hook's name, and for
 * a time limit that timers do not support.
 */
export function transformHook<Value, Field extends string>(
  name: string,
  options: TransformHookOptions<Value, Field>,
): TransformHook<Value, Field> {
  if ((options.field as string) === "type")
    throw badHook(`The hook "${name}" cannot have the field "type"; choose another.`);
  return { ...options, mode: "transform", name, timeoutMs: hookTimeLimit(name, options) };
}

/**
 * Merge rules for the answers of several handlers, field by field. A field can have the rule `one`; a string also
 * `join`, and a boolean also `any`.
 */
export type MergeRules<Answer> = {
  readonly [Field in keyof Answer]-?: NonNullable<Answer[Field]> extends string
    ? Extract<MergeRule, "one" | "join">
    : NonNullable<Answer[Field]> extends boolean
      ? Extract<MergeRule, "one" | "any">
      : "one";
};

/** Fields of every answer to a decide hook, besides the hook's own. */
export interface Cancellation {
  /** True to cancel the operation. One handler that answers true is enough. */
  cancel?: boolean;
  /** Reason, for the caller. */
  reason?: string;
}

/**
 * Hook that collects answers. Every handler is called, in order, unless the context's signal aborts. Each answer is
 * validated alone, and the valid ones are merged.
 */
export interface DecideHook<Payload extends object = object, Answer extends object = object>
  extends Hook<Payload, Answer> {
  readonly mode: "decide";
  /** Merge rule of each field, for answers of several handlers: `one`, `any` or `join`. */
  readonly fields: MergeRules<Answer>;
  /**
   * Returns the reason to refuse an answer, as a sentence; undefined to accept it. Default: accepts every answer. Not
   * called for a cancellation, nor for an answer without a field of the hook.
   */
  validate?(answer: Partial<Answer>, payload: Readonly<Payload>): string | undefined;
}

/** Options of a decide hook. */
export interface DecideHookOptions<Payload extends object, Answer extends object>
  extends HookOptions,
    Pick<DecideHook<Payload, Answer>, "fields"> {
  /** Returns the reason to refuse an answer, as a sentence; undefined to accept it. Default: accepts every answer. */
  validate?: (answer: Partial<Answer>, payload: Readonly<Payload>) => string | undefined;
}

/**
 * Makes a decide hook. Throws `ExtensionError` `bad-hook` for the fields `cancel` and `reason`, which every decide hook
 * has, and for a time limit that timers do not support.
 */
export function decideHook<Payload extends object, Answer extends object>(
  name: string,
  options: DecideHookOptions<Payload, Answer>,
): DecideHook<Payload, Answer> {
  const field = ["cancel", "reason"].find((own) => Object.hasOwn(options.fields, own));
  if (field !== undefined) throw badHook(`The hook "${name}" always has "${field}"; leave it out of fields.`);
  return { ...options, mode: "decide", name, timeoutMs: hookTimeLimit(name, options) };
}

/**
 * Another name under which handlers can register for a hook. The handlers of both names are called in one order.
 * Handlers of the alias receive the event in the shape of the alias, and are skipped when `when` returns false.
 */
export interface HookAlias<Payload extends object = object, Answer extends object = object>
  extends Hook<Payload, Answer> {
  readonly mode: "alias";
  /** Name of the hook behind the alias. */
  readonly of: string;
  /** Returns whether an event is for handlers of the alias. */
  when(payload: object): boolean;
  /** Returns the event in the shape of the alias. */
  map(payload: object): object;
  /** Returns an answer in the shape of the hook. */
  mapAnswer(answer: object): object;
}

/**
 * Options of an alias. Without functions, handlers get the same events and give the same answers as under the hook's
 * name.
 */
export interface HookAliasOptions<
  Source extends object,
  SourceAnswer extends object,
  Payload extends object,
  Answer extends object,
> {
  /** Hook behind the alias. */
  of: NotifyHook<Source> | DecideHook<Source, SourceAnswer>;
  /** Selects the hook's events for this name. Default: all. Pure. */
  when?: (payload: Readonly<Source>) => boolean;
  /** Converts the payload to the shape of this name. Default: unchanged. Pure. */
  map?: (payload: Readonly<Source>) => Payload;
  /** Converts an answer to the shape of the hook. Default: unchanged. Pure. */
  mapAnswer?: (answer: Partial<Answer> & Cancellation) => Partial<SourceAnswer> & Cancellation;
}

/** Makes another name for a hook, with its own shape of events and answers. Its handlers count as handlers of the hook. */
export function hookAlias<
  Source extends object,
  SourceAnswer extends object = object,
  Payload extends object = Source,
  Answer extends object = SourceAnswer,
>(
  name: string,
  options: HookAliasOptions<Source, SourceAnswer, Payload, Answer>,
): HookAlias<Payload, Answer> {
  const { of, when = () => true, map = (payload) => payload, mapAnswer = (answer) => answer } = options;
  return {
    mode: "alias",
    name,
    timeoutMs: of.timeoutMs,
    of: of.name,
    when: when as HookAlias["when"],
    map: map as HookAlias["map"],
    mapAnswer: mapAnswer as HookAlias["mapAnswer"],
  };
}

/** Hooks and aliases by their names. */
export type HookSet = Readonly<Record<string, Hook>>;

/**
 * Merge rule of a field:
 *
 * - `one`: the answer of the first handler is used, and each further answer is reported as a conflict;
 * - `join`: strings that are not empty, joined by blank lines in the order of the handlers;
 * - `any`: true if at least one answer is true, else false.
 */
export type MergeRule = "one" | "join" | "any";

/** The only part of `ctx` that the host itself uses: an abort ends the waiting for handlers. */
export interface HandlerContext {
  readonly signal?: AbortSignal | undefined;
}

/** Event of a hook: the payload, or the draft of the value, with the hook's name as `type`. */
export type EventOf<One, Name extends string = string> =
  One extends TransformHook<infer Value, infer Field>
    ? { readonly type: Name } & { [Key in Field]: Draft<Value> }
    : One extends Hook<infer Payload, unknown>
      ? Readonly<Payload> & { readonly type: Name }
      : never;

/**
 * Answer to a hook. Undefined, null and `{}` all mean no opinion; in a transform hook, changes of the draft count all
 * the same. The answer to a notify hook is ignored.
 */
export type AnswerTo<One> =
  One extends TransformHook<infer Value, infer Field>
    ? // biome-ignore lint/suspicious/noConfusingVoidType: a handler without a return statement gives void.
      void | null | undefined | { [Key in Field]?: Value | Draft<Value> }
    : One extends Hook<unknown, infer Answer>
      ? Answer extends object
        ? // biome-ignore lint/suspicious/noConfusingVoidType: as above.
          void | null | undefined | (Partial<Answer> & Cancellation)
        : unknown
      : never;

/** Handler of a hook: receives the event, and returns an answer in the shape of the hook's mode. */
export type Handler<One, Name extends string, Context> = (
  event: EventOf<One, Name>,
  ctx: Context,
) => AnswerTo<One> | Promise<AnswerTo<One>>;

/** Options of a handler: its order, its time limit, and the effect of its failure. */
export interface HandlerOptions {
  /**
   * Handlers with a higher priority are called earlier; default 0. With equal priorities, the order of registration
   * counts.
   */
  priority?: number;
  /**
   * True for a handler that must not be skipped. When it throws or takes too long, a decide hook is cancelled, and the
   * caller of a notify or transform hook gets an `ExtensionError`; in a transform hook, also when its change is
   * refused. Default false: a failure is reported and the handler is skipped. In a decide hook, a handler that uses a
   * member that the host lacks cancels in both cases.
   */
  critical?: boolean;
  /** Time limit in milliseconds. Default: the limit of the hook. */
  timeoutMs?: number;
}

/** Default export of an extension module. */
export type ExtensionSetup<Api> = (api: Api) => void | Promise<void>;

/** A registered handler. */
export interface Registration {
  /** Name of its extension, as in reports. */
  readonly owner: string;
  /** Name under which it was registered: the hook's own name or an alias. */
  readonly hookName: string;
  readonly alias: HookAlias | null;
  readonly handler: (event: object, context: object) => unknown;
  readonly priority: number;
  readonly critical: boolean;
  readonly timeoutMs: number;
}

/** 10 s, in milliseconds: time limit of a setup, and of a handler unless it or its hook has another one. */
export const HANDLER_LIMIT_MS = 10_000;

/** 5 minutes, in milliseconds: for hooks whose handlers may call a model before they answer. */
export const LONG_HANDLER_LIMIT_MS = 300_000;

/** About 25 days. Timers have 32 bits, and a larger number would fire at once. */
const LARGEST_LIMIT_MS = 2 ** 31 - 1;

/** Returns the reason to refuse these milliseconds as a time limit; undefined to accept them. */
export function refuseTimeLimit(milliseconds: number): string | undefined {
  if (milliseconds > 0 && milliseconds <= LARGEST_LIMIT_MS) return undefined;
  return `the timeoutMs ${milliseconds}; give milliseconds between 1 and ${LARGEST_LIMIT_MS}.`;
}

/**
 * Codes of errors:
 * - `not-found`, `unreadable-folder`, `syntax-error`, `no-default-export`, `load-failed`, `load-timed-out`,
 *   `foreign-package`: an extension file could not be found or loaded;
 * - `setup-failed`: the extension's default export threw or took too long;
 * - `missing-member`: an extension uses a member of `api`, `ctx` or a virtual module that this host does not have;
 * - `unregistered`: an extension used its api after it had been removed;
 * - `critical-handler-failed`, `aborted`: a run of a hook could not be finished;
 * - `bad-handler`: an extension registers something that is not a function, or with an invalid priority or time limit;
 * - `bad-hook`, `unknown-hook`: the program defines a hook incorrectly, or runs a hook that its host does not have.
 */
export type ExtensionErrorCode =
  | "not-found"
  | "unreadable-folder"
  | "syntax-error"
  | "no-default-export"
  | "load-failed"
  | "load-timed-out"
  | "foreign-package"
  | "setup-failed"
  | "missing-member"
  | "unregistered"
  | "critical-handler-failed"
  | "aborted"
  | "bad-handler"
  | "bad-hook"
  | "unknown-hook";

/** The only error class of this package. `owner` is the name of the extension; null for an error of the program. */
export class ExtensionError extends Error {
  override readonly name = "ExtensionError";
  readonly code: ExtensionErrorCode;
  readonly owner: string | null;

  constructor(code: ExtensionErrorCode, message: string, options: { owner?: string; cause?: unknown } = {}) {
    super(message, "cause" in options ? { cause: options.cause } : {});
    this.code = code;
    this.owner = options.owner ?? null;
  }
}

/** Returns the error of a program that defines a hook incorrectly. */
export const badHook = (message: string) => new ExtensionError("bad-hook", message);

/**
 * Returns a thrown value of any type as text: the message of an error (its name when the message is empty), a string
 * itself, `[object …]` for another object. A message of several lines stays so.
 */
export function describeThrown(thrown: unknown): string {
  if (thrown instanceof Error) return thrown.message === "" ? thrown.name : thrown.message;
  if (typeof thrown === "object" && thrown !== null) return Object.prototype.toString.call(thrown);
  return String(thrown);
}
