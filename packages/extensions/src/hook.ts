import type { Draft } from "immer";

/** Members of a hook of any mode. */
export interface Hook<Payload = unknown, Answer = unknown> {
  /** Combination of answers: none, one value handed on, merged, or another name for one of these. */
  readonly mode: "notify" | "transform" | "decide" | "alias";
  /** Name in `api.on(name, …)` and in `event.type`. */
  readonly name: string;
  /** Time limit of one handler, in milliseconds. */
  readonly timeoutMs: number;
  /** For the type checker alone; never set. */
  readonly types?: { readonly payload: Payload; readonly answer: Answer };
}

/** Options of every hook. */
export interface HookOptions {
  /** Default `HANDLER_LIMIT_MS`; `LONG_HANDLER_LIMIT_MS` where handlers may ask a model. */
  timeoutMs?: number;
}

/** The limit of a hook that is being made; throws `ExtensionError` `bad-hook` for one that no timer takes. */
function hookTimeLimit(name: string, options: HookOptions): number {
  const { timeoutMs = HANDLER_LIMIT_MS } = options;
  const refusal = refuseTimeLimit(timeoutMs);
  if (refusal !== undefined) throw new ExtensionError("bad-hook", `The hook "${name}" has ${refusal}`);
  return timeoutMs;
}

/** Something happened: every handler is called, in order, and its return value is ignored. */
export interface NotifyHook<Payload extends object = object> extends Hook<Payload> {
  readonly mode: "notify";
}

/** Makes a hook whose handlers are notified. */
export function notifyHook<Payload extends object>(
  name: string,
  options: HookOptions = {},
): NotifyHook<Payload> {
  return { mode: "notify", name, timeoutMs: hookTimeLimit(name, options) };
}

/**
 * One value passes through all handlers, in order; each gets what the one before left.
 * The event is `{type, [field]: value}`, a draft: a handler changes it, assigns to it, or returns `{[field]: other}`.
 */
export interface TransformHook<Value = unknown, Field extends string = string> extends Hook<Value> {
  readonly mode: "transform";
  /** Field of the value in the event, such as `messages`; any name but `type`. */
  readonly field: Field;
  /** Returns the reason to refuse a changed value, as a sentence; undefined to accept it. Default: accepts every value. */
  validate?(value: Value): string | undefined;
}

/** Options of a transform hook. */
export interface TransformHookOptions<Value, Field extends string>
  extends HookOptions,
    Pick<TransformHook<Value, Field>, "field"> {
  /** Returns the reason to refuse a changed value, as a sentence; undefined to accept it. Default: accepts every value. */
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

/** Merge rules for the answers of several handlers, field by field. */
export type MergeRules<Answer> = {
  readonly [Field in keyof Answer]-?: NonNullable<Answer[Field]> extends string
    ? Extract<MergeRule, "one" | "join">
    : NonNullable<Answer[Field]> extends boolean
      ? Extract<MergeRule, "one" | "any">
      : "one";
};

/** Fields of every answer to a decide hook, besides the hook's own. */
export interface Cancellation {
  /** True: what was about to happen does not. One handler is enough. */
  cancel?: boolean;
  /** The reason, for the caller. */
  reason?: string;
}

/** All handlers are asked, in order; each answer is validated alone, and valid ones are merged. */
export interface DecideHook<Payload extends object = object, Answer extends object = object>
  extends Hook<Payload, Answer> {
  readonly mode: "decide";
  /** Merge rule of each field that several handlers give: `one`, `any` or `join`. */
  readonly fields: MergeRules<Answer>;
  /**
   * Returns the reason to refuse this one answer, as a sentence; undefined to accept it. Default: accepts every answer.
   * Not called for a cancellation.
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

/**
 * Another name under which handlers may register for a hook: they are in one order with the hook's own handlers,
 * receive the event in the shape of the other name, and are skipped where `when` returns false.
 */
export interface HookAlias<Payload extends object = object, Answer extends object = object>
  extends Hook<Payload, Answer> {
  readonly mode: "alias";
  /** The name of its hook. */
  readonly of: string;
  /** Returns whether this event is for listeners of this name. */
  when(payload: object): boolean;
  /** The event in the shape that this name promises. */
  map(payload: object): object;
  /** An answer in the shape that the hook itself expects. */
  mapAnswer(answer: object): object;
}

/** Options of an alias: without functions, the same events and answers under a second name. */
export interface HookAliasOptions<
  Source extends object,
  SourceAnswer extends object,
  Payload extends object,
  Answer extends object,
> {
  /** Its hook. */
  of: NotifyHook<Source> | DecideHook<Source, SourceAnswer>;
  /** Selects the hook's events for this name; default all. Pure. */
  when?: (payload: Readonly<Source>) => boolean;
  /** The payload in the shape that handlers of this name expect; default as it is. Pure. */
  map?: (payload: Readonly<Source>) => Payload;
  /** The answer in the shape that the hook expects; default as it is. Pure. */
  mapAnswer?: (answer: Partial<Answer> & Cancellation) => Partial<SourceAnswer> & Cancellation;
}

/** Another name for a hook, with an event and an answer of its own shape. Its listeners are those of its hook. */
export function hookAlias<
  Source extends object,
  SourceAnswer extends object = object,
  Payload extends object = Source,
  Answer extends object = SourceAnswer,
>(
  name: string,
  options: HookAliasOptions<Source, SourceAnswer, Payload, Answer>,
): HookAlias<Payload, Answer> {
  const { of, when, map, mapAnswer } = options;
  return {
    mode: "alias",
    name,
    timeoutMs: of.timeoutMs,
    of: of.name,
    when: (payload) => when === undefined || when(payload as Source),
    map: (payload) => (map === undefined ? payload : map(payload as Source)),
    mapAnswer: (answer) => (mapAnswer === undefined ? answer : mapAnswer(answer as Partial<Answer>)),
  };
}

/** Hooks and aliases by their names. */
export type HookSet = Readonly<Record<string, Hook>>;

/**
 * - `one`: the first is used, a second is a conflict;
 * - `join`: strings, one after the other with a blank line between;
 * - `any`: true if one of them is true.
 */
export type MergeRule = "one" | "join" | "any";

/** The one thing the host itself looks at in what it hands on as `ctx`: an abort ends the waiting for handlers. */
export interface HandlerContext {
  readonly signal?: AbortSignal | undefined;
}

/** Event of a hook: the payload, or the draft of the one value, and the hook's name as `type`. */
export type EventOf<One, Name extends string = string> =
  One extends TransformHook<infer Value, infer Field>
    ? { readonly type: Name } & { [Key in Field]: Draft<Value> }
    : One extends Hook<infer Payload, unknown>
      ? Readonly<Payload> & { readonly type: Name }
      : never;

/** Answer to a hook. Nothing, null and `{}` are the same: no opinion. */
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

/** Handler of a hook: receives the event, and answers in the shape of the hook's mode. */
export type Handler<One, Name extends string, Context> = (
  event: EventOf<One, Name>,
  ctx: Context,
) => AnswerTo<One> | Promise<AnswerTo<One>>;

/** Options of a handler: its order, its time limit, and its failure. */
export interface HandlerOptions {
  /** Higher is asked earlier; default 0. Handlers of one priority are asked in the order in which they registered. */
  priority?: number;
  /**
   * True for a handler that must not be skipped. One that throws or takes too long cancels what a decide hook asks about;
   * in a notify or transform hook, there also for a change that is refused, the caller gets an `ExtensionError`.
   * Default false: reported and skipped, but for one that failed because the host lacks a member that it uses.
   */
  critical?: boolean;
  /** Default: the limit of the hook, in milliseconds. */
  timeoutMs?: number;
}

/** Default export of an extension module. */
export type ExtensionSetup<Api> = (api: Api) => void | Promise<void>;

/** One handler of one hook. */
export interface Registration {
  /** The extension it belongs to, by the name that reports use. */
  readonly owner: string;
  /** The name it was registered under: the hook's own or an alias. */
  readonly hookName: string;
  readonly alias: HookAlias | null;
  readonly handler: (event: object, context: object) => unknown;
  readonly priority: number;
  readonly critical: boolean;
  readonly timeoutMs: number;
}

/** 10 s, in milliseconds: what a handler may take where its hook says nothing else. */
export const HANDLER_LIMIT_MS = 10_000;

/** 5 minutes, in milliseconds: for hooks whose handlers may ask a model before they answer. */
export const LONG_HANDLER_LIMIT_MS = 300_000;

/** About 25 days. Timers take 32 bits; a larger number would fire at once. */
const LARGEST_LIMIT_MS = 2 ** 31 - 1;

/** Returns the reason to refuse these milliseconds as a limit; undefined to accept them. */
export function refuseTimeLimit(milliseconds: number): string | undefined {
  if (milliseconds > 0 && milliseconds <= LARGEST_LIMIT_MS) return undefined;
  return `the timeoutMs ${milliseconds}; give milliseconds between 1 and ${LARGEST_LIMIT_MS}.`;
}

/**
 * Codes of errors:
 * - `not-found`, `unreadable-folder`, `syntax-error`, `no-default-export`, `load-failed`, `load-timed-out`,
 *   `foreign-package`: an extension file could not be loaded;
 * - `setup-failed`: its default export threw or took too long;
 * - `missing-member`: an extension uses a member of `api`, `ctx` or a lent module that this host does not have;
 * - `unregistered`: an extension used its api after it had been removed;
 * - `critical-handler-failed`, `aborted`: a run of a hook could not be finished;
 * - `bad-handler`, `bad-hook`, `unknown-hook`: the program around the hooks is wrong.
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

/** The only error class of this package. `owner` is the name of the extension concerned; null for the program itself. */
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

/** Describes a thrown value, of any type, as one line. */
export function describeThrown(thrown: unknown): string {
  if (thrown instanceof Error) return thrown.message === "" ? thrown.name : thrown.message;
  if (typeof thrown === "string") return thrown;
  if (typeof thrown === "object" && thrown !== null) return Object.prototype.toString.call(thrown);
  return String(thrown);
}
