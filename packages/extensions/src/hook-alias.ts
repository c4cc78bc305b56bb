import type { Cancellation, DecideHook } from "./decide-hook.ts";
import type { Hook } from "./hook.ts";
import type { NotifyHook } from "./notify-hook.ts";

/**
 * Another name under which handlers may register for a hook: they stand in one order with the hook's own handlers,
 * see the event in the shape the other name promises, and are passed over where `when` says no.
 */
export interface HookAlias<Payload extends object = object, Answer extends object = object>
  extends Hook<Payload, Answer> {
  readonly mode: "alias";
  /** The name of the hook it stands for. */
  readonly of: string;
  /** Whether this event is for listeners of this name. */
  when(payload: object): boolean;
  /** The event in the shape that this name promises. */
  map(payload: object): object;
  /** An answer in the shape that the hook itself expects. */
  mapAnswer(answer: object): object;
}

/** What another name for a hook is made of: without functions, the same events and answers under a second name. */
export interface HookAliasOptions<
  Source extends object,
  SourceAnswer extends object,
  Payload extends object,
  Answer extends object,
> {
  /** The hook it stands for. */
  of: NotifyHook<Source> | DecideHook<Source, SourceAnswer>;
  /** Which of the hook's events the name is for; default all. Pure. */
  when?: (payload: Readonly<Source>) => boolean;
  /** The payload in the shape that handlers of this name expect; default as it is. Pure. */
  map?: (payload: Readonly<Source>) => Payload;
  /** The answer in the shape that the hook expects; default as it is. Pure. */
  mapAnswer?: (answer: Partial<Answer> & Cancellation) => Partial<SourceAnswer> & Cancellation;
}

/** Another name for a hook, with an event and an answer of its own shape. Its listeners are those of the hook it stands for. */
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

export function isHookAlias(hook: Hook): hook is HookAlias {
  return hook.mode === "alias";
}
