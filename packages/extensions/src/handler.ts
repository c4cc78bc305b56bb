import type { Draft } from "immer";
import type { Cancellation } from "./decide-hook.ts";
import type { Hook } from "./hook.ts";
import type { TransformHook } from "./transform-hook.ts";

/** The one thing the host itself looks at in what it hands on as `ctx`: an abort ends the waiting for handlers. */
export interface HandlerContext {
  readonly signal?: AbortSignal | undefined;
}

/** What a handler of this hook is given: the payload, or the draft of the one value, and the hook's name as `type`. */
export type EventOf<One, Name extends string = string> =
  One extends TransformHook<infer Value, infer Field>
    ? { readonly type: Name } & { [Key in Field]: Draft<Value> }
    : One extends Hook<infer Payload, unknown>
      ? Readonly<Payload> & { readonly type: Name }
      : never;

/** What a handler of this hook may answer. Nothing, null and `{}` are the same: no opinion. */
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

/** What an extension registers for a hook: gets the event, and answers in the shape that the hook's mode takes. */
export type Handler<One, Name extends string, Context> = (
  event: EventOf<One, Name>,
  ctx: Context,
) => AnswerTo<One> | Promise<AnswerTo<One>>;

/** How one handler is asked: when, how long it may take, and whether it may be skipped. */
export interface HandlerOptions {
  /** Higher is asked earlier; default 0. Handlers of one priority are asked in the order in which they registered. */
  priority?: number;
  /**
   * What must not be skipped. A critical handler that throws or takes too long cancels what a decide hook asks about;
   * in a notify or transform hook, there also for a change that is refused, the caller gets an `ExtensionError`.
   * Default false: reported and skipped, but for one that failed because the host lacks a member that it uses.
   */
  critical?: boolean;
  /** Default: the limit of the hook, in milliseconds. */
  timeoutMs?: number;
}
