export {
  EventBus,
  type EventPayloads,
  EventType,
} from "@espalier/policies";
export { automaticInARow } from "./automatic-in-a-row.ts";
export type { BranchSummaryRequest } from "./branch-summary-request.ts";
export { type CompactSessionByCountOptions, compactSession } from "./compact-session.ts";
export type { CompactionRequest } from "./compaction-request.ts";
export type { CompactionResult, CompactSessionOptions } from "./compaction-run.ts";
export type { PolicyComparison } from "./compare-policies.ts";
export { sessionFolder } from "./context-for-handlers.ts";
export { type CopyResult, copySession } from "./copy-session.ts";
export { type Diagnosis, diagnose, diagnoseTree } from "./diagnose.ts";
export { EngineError, type EngineErrorCode, type EngineErrorOptions } from "./engine-error.ts";
export {
  defineExtension,
  type EspalierApi,
  type Extension,
  type ExtensionState,
  type PiApi,
  type ProgramOptions,
  type ProgramResult,
  type StateOptions,
} from "./extension.ts";
export type {
  ContextUsage,
  DialogOptions,
  ExtensionAnswer,
  ExtensionCommandContext,
  ExtensionContext,
  ExtensionDialogs,
  ExtensionModel,
  ExtensionModels,
  ExtensionUi,
  HandlerUi,
  SessionManager,
} from "./extension-context.ts";
export type { ExtensionActs, ExtensionCommand, ExtensionMembers } from "./extension-members.ts";
export {
  type Draft,
  type DraftContent,
  fillMessage,
  fillMessages,
  type MessageDraft,
} from "./fill-message.ts";
export type { ForkOptions, ForkResult } from "./fork-session.ts";
export type { HoldOptions, OnBusy } from "./hold-session.ts";
export { espalierHome, piSessions } from "./home.ts";
export {
  agentEnd,
  agentSettled,
  agentStart,
  type EngineHooks,
  engineHooks,
  type ShutdownReason,
  type StartReason,
  toolResult,
  turnEnd,
  turnStart,
} from "./hooks.ts";
export type { LeftOutPicture, PictureLimits } from "./leave-out-pictures.ts";
export { type ListedSession, type ListOptions, listSessions } from "./list-sessions.ts";
export type { ExtensionOptions } from "./load-extensions.ts";
export type { MergeOptions, MergeResult } from "./merge-branch.ts";
export type { NavigateOptions, NavigateResult } from "./navigate.ts";
export type { OffloadedResults } from "./offload-results.ts";
export {
  type CreateOptions,
  createSession,
  deleteSession,
  type OpenOptions,
  openOrCreate,
  openSession,
  type StoreOptions,
} from "./open-session.ts";
export { migrateStore, type OpenStore, openStore, type StoreMigration } from "./open-store.ts";
export { othersMayRead } from "./others-may-read.ts";
export { PIN, pinnedOn } from "./pins.ts";
export { POLICIES, POLICY_NAMES, type PolicyName, type PolicySettings, resolvePolicy } from "./policies.ts";
export type { PreparedRequest, RequestPreparation } from "./prepare-request.ts";
export {
  type ArchivedRows,
  archivedRows,
  type BilledCall,
  type BranchComparison,
  type BranchSide,
  billedCallAt,
  type CompactionStats,
  compareBranches,
  type HistoryHit,
  type HistoryQuery,
  type HistoryRequest,
  historyOf,
  isArchived,
  type ReadableSession,
  rowsHidden,
  type SessionStats,
  statsOf,
  type UsageTotals,
} from "./reading/index.ts";
export { isRepaired, type LostBytes, REPAIRED } from "./repair-lines.ts";
export type { RepairAction } from "./repair-plan.ts";
export { type RepairChange, type RepairReport, repairSession } from "./repair-session.ts";
export { paced, type ReplayOptions, type ReplayStep, replay } from "./replay.ts";
export type { RequestExtras } from "./request-overhead.ts";
export { rescueSession } from "./rescue-session.ts";
export { resolveSummarizer } from "./resolve-summarizer.ts";
export { type RunState, runStateOf, SENT, sentEntry } from "./run-state.ts";
export type { SearchHit } from "./search/search-log.ts";
export { type SearchOptions, searchSessions } from "./search/search-sessions.ts";
export { Session } from "./session.ts";
export type { ActOptions, EngineHost, SessionOptions, SessionState } from "./session-state.ts";
export {
  type LeftOutSetting,
  type ResolvedSettings,
  resolveSettings,
  type SettingOrigin,
  type SettingsSources,
} from "./settings/resolve-settings.ts";
export { sessionOptionsOf } from "./settings/session-options-of.ts";
export {
  DEFAULT_SETTINGS,
  SETTING_EFFECTS,
  SETTINGS_KEYS,
  type SettingEffect,
  type Settings,
  type SettingsKey,
} from "./settings/settings.ts";
export type { Settle } from "./settings/settings-in-force.ts";
export { settingsJsonSchema } from "./settings/settings-json-schema.ts";
export type { SettingsOrigin } from "./settings/settings-layer.ts";
export { settleTail } from "./settle-tail.ts";
export { type ConfirmTrust, openTrust, type ProjectTrust, type TrustStore } from "./trust.ts";
export { type LastAct, lastAct } from "./undo.ts";
