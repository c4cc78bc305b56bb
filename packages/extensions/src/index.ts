export { deepFreeze, type ExtensionReport, type ReportKind } from "./answer.ts";
export type {
  AnswerTo,
  EventOf,
  ExtensionSetup,
  Handler,
  HandlerContext,
  HandlerOptions,
  Hook,
  HookOptions,
  HookSet,
  MergeRule,
} from "./hook.ts";
export {
  type Cancellation,
  type DecideHook,
  type DecideHookOptions,
  decideHook,
  ExtensionError,
  type ExtensionErrorCode,
  HANDLER_LIMIT_MS,
  type HookAlias,
  type HookAliasOptions,
  hookAlias,
  LONG_HANDLER_LIMIT_MS,
  type MergeRules,
  type NotifyHook,
  notifyHook,
  type TransformHook,
  type TransformHookOptions,
  transformHook,
} from "./hook.ts";
export type { ExtensionApi } from "./host.ts";
export { createExtensionHost, type ExtensionHost, type ExtensionHostOptions } from "./host.ts";
export type { Clock, Decision } from "./run.ts";
