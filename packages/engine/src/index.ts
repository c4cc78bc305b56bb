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
export type { OffloadedResults } from "./compaction/offload.ts";
export {
  automaticInARow,
  forecastAct,
  type PlannedCompaction,
  type PolicyComparison,
  type RequestExtras,
} from "./compaction/request.ts";
export { type CompactSessionByCountOptions, compactSession } from "./compaction/run.ts";
export { sessionFolder } from "./extensions/context.ts";
export {
  defineExtension,
  type EspalierApi,
  type Extension,
  type ExtensionState,
  type ProgramOptions,
  type ProgramResult,
  type StateOptions,
} from "./extensions/extension.ts";
export type { ExtensionMembers, ExtensionOptions } from "./extensions/load.ts";
export type {
  ContextUsage,
  DialogOptions,
  ExtensionAnswer,
  ExtensionCommand,
  ExtensionCommandContext,
  ExtensionContext,
  ExtensionDialogs,
  ExtensionModel,
  ExtensionModels,
  ExtensionUi,
  HandlerUi,
  SessionManager,
} from "./extensions/members.ts";
export {
  addressOf,
  missingKey,
  nameOfModel,
  type ProviderAccess,
  providerNamed,
  resolveSummarizer,
} from "./providers/named.ts";
// The origins name this door.
export { statsOf } from "./reading/statistics.ts";
export { type Diagnosis, diagnose, othersMayRead } from "./repair/diagnose.ts";
export {
  type LostBytes,
  type RepairChange,
  type RepairReport,
  repairSession,
} from "./repair/repair.ts";
export { rowsWith } from "./search/matching.ts";
export type {
  EntryCursor,
  EntryPlace,
  OriginalEntry,
  ReadEntriesOptions,
  Recalled,
  RecallOptions,
} from "./search/recall.ts";
export { quotedData, readEntries, recall } from "./search/recall.ts";
export { type SearchHit, type SearchOptions, searchSessions } from "./search/search.ts";
export { addRule, dropRule } from "./session/append.ts";
export { type CopyResult, copySession } from "./session/copy.ts";
export {
  type LastAct,
  lastAct,
  lastUndone,
  PIN,
  pinnedOn,
  rulesOf,
  type UndoResult,
} from "./session/edit.ts";
export { type Draft, type DraftContent, fillMessage, type MessageDraft } from "./session/message-draft.ts";
export type {
  ForkOptions,
  ForkResult,
  MergeOptions,
  MergeResult,
  NavigateOptions,
  NavigateResult,
} from "./session/navigate.ts";
export type { OnBusy } from "./session/open.ts";
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
export type { LeftOutPicture, PictureLimits } from "./session/pictures.ts";
export { type PoolOptions, type SessionPool, sessionPool } from "./session/pool.ts";
export type { PreparedRequest, RequestPreparation } from "./session/prepare-request.ts";
export {
  paced,
  type ReplayOptions,
  type ReplayStep,
  type RunState,
  replay,
  runStateOf,
  SENT,
  sentEntry,
} from "./session/replay.ts";
export { Session } from "./session/session.ts";
export type { ActOptions, CacheBreakEvent, EngineHost, SessionOptions, Settle } from "./session/state.ts";
export {
  agentEnd,
  agentSettled,
  agentStart,
  currentModel,
  type EngineHooks,
  engineHooks,
  type ShutdownReason,
  type StartReason,
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
  type OpenStore,
  openStore,
  runsBelow,
  STORE_SCHEMES,
  type StoreMigration,
  type SubAgentRun,
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
export type { SettingsOrigin } from "./settings/settings.ts";
export {
  DEFAULT_SETTINGS,
  SETTING_EFFECTS,
  SETTINGS,
  SETTINGS_KEYS,
  type SettingEffect,
  type SettingRule,
  type Settings,
  type SettingsKey,
} from "./settings/settings.ts";
export { type ConfirmTrust, openTrust, type ProjectTrust, type TrustStore } from "./settings/trust.ts";
export {
  type AfterAnswer,
  afterAnswer,
  type NextOptions,
  nextRequest,
  type RecordOptions,
  recordAnswer,
  type SayOptions,
  type TurnRequest,
} from "./turn/ask.ts";
export {
  type AnswerEvent,
  type Limits,
  limitsOf,
  type ParamsOptions,
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
