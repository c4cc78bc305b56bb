export { type Clock, systemClock } from "./clock.ts";
export {
  type Cancellation,
  type DecideHook,
  type DecideHookOptions,
  decideHook,
  type MergeRules,
} from "./decide-hook.ts";
export type { ExtensionApi } from "./extension-api.ts";
export { ExtensionError, type ExtensionErrorCode } from "./extension-error.ts";
export { deepFreeze } from "./freeze.ts";
export type { AnswerTo, EventOf, Handler, HandlerContext, HandlerOptions } from "./handler.ts";
export type { Hook, HookOptions } from "./hook.ts";
export { type HookAlias, type HookAliasOptions, hookAlias } from "./hook-alias.ts";
export type { HookSet } from "./hook-set.ts";
export {
  createExtensionHost,
  type ExtensionHost,
  type ExtensionHostOptions,
  type ExtensionSetup,
} from "./host.ts";
export type { MergeRule } from "./merge.ts";
export { type NotifyHook, notifyHook } from "./notify-hook.ts";
export { type ExtensionReport, type ReportKind, reportRefusedLoad } from "./report.ts";
export type { Decision } from "./run-decide.ts";
export { HANDLER_LIMIT_MS, LONG_HANDLER_LIMIT_MS } from "./time-limit.ts";
export { type TransformHook, type TransformHookOptions, transformHook } from "./transform-hook.ts";
