export {
  EventBus,
  type EventPayloads,
  EventType,
  POLICY_NAMES,
  type PolicyName,
  type PolicySettings,
  resolvePolicy,
} from "@espalier/compaction/policies";
export type { CommittedCompaction, CompactionRequest } from "./compaction/draft.ts";
export { automaticInARow, forecastAct, type PolicyComparison } from "./compaction/request.ts";
export { compactSession } from "./compaction/run.ts";
export { sessionFolder } from "./extensions/context.ts";
export {
  defineExtension,
  type EspalierApi,
  type Extension,
  type ExtensionState,
  type StateOptions,
} from "./extensions/extension.ts";
export type {
  ExtensionCommandContext,
  ExtensionContext,
  ExtensionDialogs,
  SessionManager,
} from "./extensions/members.ts";
export { addressOf, missingKey, nameOfModel, providerNamed, resolveSummarizer } from "./providers/named.ts";
// The origins name this door.
export { statsOf } from "./reading/statistics.ts";
export { type Diagnosis, diagnose, othersMayRead } from "./repair/diagnose.ts";
export { type RepairReport, repairSession } from "./repair/repair.ts";
export { rowsWith } from "./search/matching.ts";
export type { OriginalEntry, Recalled } from "./search/recall.ts";
export { quotedData, readEntries, recall } from "./search/recall.ts";
export { type SearchHit, type SearchOptions, searchSessions } from "./search/search.ts";
export { addRule, dropRule } from "./session/append.ts";
export { copySession } from "./session/copy.ts";
export {
  type LastAct,
  lastAct,
  lastUndone,
  PIN,
  pinnedOn,
  rulesOf,
  type UndoResult,
} from "./session/edit.ts";
export { fillMessage, type MessageDraft } from "./session/message-draft.ts";
export type {
  ForkOptions,
  ForkResult,
  MergeOptions,
  NavigateOptions,
  NavigateResult,
} from "./session/navigate.ts";
export {
  type CreateOptions,
  createSession,
  deleteSession,
  hasSession,
  type OpenOptions,
  openOrCreate,
  openSession,
  type StoreOptions,
  settleTail,
} from "./session/open.ts";
export { type PoolOptions, type SessionPool, sessionPool } from "./session/pool.ts";
export type { PreparedRequest, RequestPreparation } from "./session/prepare-request.ts";
export {
  paced,
  type ReplayStep,
  type RunState,
  replay,
  runStateOf,
  SENT,
  sentEntry,
} from "./session/replay.ts";
export { Session } from "./session/session.ts";
export type { ActOptions, SessionOptions } from "./session/state.ts";
export {
  agentEnd,
  agentSettled,
  agentStart,
  currentModel,
  type EngineHooks,
  engineHooks,
  sessionOptionsOf,
  turnEnd,
  turnStart,
} from "./session/state.ts";
export {
  type ListedSession,
  type ListOptions,
  lastTimeOf,
  listSessions,
  migrateStore,
  openStore,
  runsBelow,
  STORE_SCHEMES,
  subAgentsOf,
} from "./session/stores.ts";
export { espalierHome } from "./settings/home.ts";
export {
  type LeftOutSetting,
  type ResolvedSettings,
  resolveSettings,
  type SettingOrigin,
  type SettingsSources,
  settingsJsonSchema,
} from "./settings/resolve.ts";
export {
  DEFAULT_SETTINGS,
  SETTING_EFFECTS,
  SETTINGS,
  SETTINGS_KEYS,
  type SettingEffect,
  type Settings,
  type SettingsKey,
} from "./settings/settings.ts";
export { type ConfirmTrust, openTrust, type ProjectTrust } from "./settings/trust.ts";
export { afterAnswer, nextRequest, recordAnswer, type TurnRequest } from "./turn/ask.ts";
export {
  type AnswerEvent,
  type Limits,
  limitsOf,
  type Provider,
  windowOf,
  writerOf,
} from "./turn/provider.ts";
export {
  INTERRUPTED,
  isAbort,
  isAnswered,
  missingResults,
  NOT_RUN,
  openCalls,
  Turn,
  type TurnCall,
  type TurnEvent,
  TurnLog,
  untilAborted,
} from "./turn/turn.ts";
