export { deepFreeze, type ExtensionReport } from "./answer.ts";
export type { ExtensionSetup, HandlerOptions, HookSet } from "./hook.ts";
export {
  type DecideHook,
  decideHook,
  ExtensionError,
  HANDLER_LIMIT_MS,
  type HookAlias,
  hookAlias,
  LONG_HANDLER_LIMIT_MS,
  type NotifyHook,
  notifyHook,
  type TransformHook,
  transformHook,
} from "./hook.ts";
export type { ExtensionApi } from "./host.ts";
export { createExtensionHost, type ExtensionHost } from "./host.ts";
export type { Clock, Decision } from "./run.ts";
