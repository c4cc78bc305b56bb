import { ExtensionError } from "./extension-error.ts";
import { HANDLER_LIMIT_MS, refuseTimeLimit } from "./time-limit.ts";

/** What every hook value has, whatever its mode. */
export interface Hook<Payload = unknown, Answer = unknown> {
  /** How answers are put together: told only, one value handed on, asked and merged, or another name for one of these. */
  readonly mode: "notify" | "transform" | "decide" | "alias";
  /** What handlers write in `api.on(name, …)` and read in `event.type`. */
  readonly name: string;
  /** How long one handler may take, in milliseconds. */
  readonly timeoutMs: number;
  /** For the type checker alone; never set. */
  readonly types?: { readonly payload: Payload; readonly answer: Answer };
}

/** What every hook may be told when it is made. */
export interface HookOptions {
  /** Default `HANDLER_LIMIT_MS`; `LONG_HANDLER_LIMIT_MS` where handlers may ask a model. */
  timeoutMs?: number;
}

/** The limit of a hook that is being made; throws `ExtensionError` `bad-hook` for one that no timer takes. */
export function hookTimeLimit(name: string, options: HookOptions): number {
  const { timeoutMs = HANDLER_LIMIT_MS } = options;
  const refusal = refuseTimeLimit(timeoutMs);
  if (refusal !== undefined) throw new ExtensionError("bad-hook", `The hook "${name}" has ${refusal}`);
  return timeoutMs;
}
