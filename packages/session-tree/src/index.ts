export type { SessionContext } from "./context/context.ts";
export {
  applySettings,
  CHARS_PER_TOKEN,
  contextOfPath,
  estimateTokens,
  estimateTotal,
  extendContext,
  IMAGE_TOKENS,
  NO_SETTINGS,
  type ProjectedEntry,
  projectPath,
  settingsAlong,
} from "./context/context.ts";
export {
  buildSessionContext,
  type PathWindow,
  PathWindowBuilder,
  pathWindowAt,
  readPathWindow,
} from "./context/window.ts";
export type {
  ContextEdit,
  Entry,
  EntryBehaviour,
  EntryKind,
  FilledIn,
  NewEntry,
  Settings,
} from "./entry/entry.ts";
export {
  createId,
  defineEntry,
  deriveId,
  entryFields,
  FORMAT_VERSION,
  ID_LENGTH,
  type ImportSource,
  isDamage,
  isSessionId,
  type ParentLink,
  parseHeader,
  type SessionHeader,
  type SessionIssue,
  type SessionIssueKind,
  type SessionRef,
  sessionRef,
  WRITER,
} from "./entry/entry.ts";
export { busyError, closedError, idTakenError, isLogError, readOnlyError } from "./entry/error.ts";
export {
  type BranchSummaryEntry,
  branchSummary,
  type CompactionEntry,
  type ContextEditEntry,
  type CustomEntry,
  type CustomMessageEntry,
  compaction,
  contextEdit,
  custom,
  customMessage,
  entryKinds,
  isCustom,
  isFailedAnswerEntry,
  isMessage,
  kindOf,
  type LabelEntry,
  type LeafEntry,
  label,
  leaf,
  type MessageEntry,
  type ModelChangeEntry,
  message,
  modelChange,
  type SessionInfoEntry,
  sessionInfo,
  type ThinkingLevelChangeEntry,
  thinkingLevelChange,
  type UsageEntry,
  usage,
} from "./entry/kinds.ts";
export {
  DAMAGED,
  EntryScan,
  firstHeader,
  headerLine,
  parsedHeader,
  readLineParts,
  readSessionLine,
  type SessionLine,
  scanEntry,
} from "./entry/line.ts";
export type {
  AssistantBlock,
  AssistantMessage,
  BashExecutionMessage,
  BranchSummaryMessage,
  CompactionSummaryMessage,
  ContentBlock,
  ContextMessage,
  CustomMessage,
  ImageBlock,
  StopReason,
  StoredMessage,
  SystemMessage,
  TextBlock,
  ThinkingBlock,
  ToolCallBlock,
  ToolDefinition,
  ToolResultMessage,
  Usage,
  UserContent,
  UserMessage,
} from "./entry/message.ts";
export {
  contentBlocks,
  isFailedAnswer,
  isRecord,
  messageText,
  parsedItem,
  toolCalls,
} from "./entry/message.ts";
export { fieldText, plainJson, plainLine, plainText } from "./entry/plain-text.ts";
export {
  type FieldRule,
  type Redact,
  Redactor,
  type RedactorOptions,
  redactEntry,
  redactFolder,
  redactHeader,
  redactMessage,
} from "./entry/redact.ts";
export { redactText } from "./entry/redact-text.ts";
export {
  type AnthropicAnswerBlock,
  type AnthropicContent,
  type AnthropicMessage,
  type AnthropicRequest,
  type AnthropicToolResult,
  anthropicFormat,
} from "./request/anthropic.ts";
export type {
  AnswerBlock,
  AssistantTurn,
  Conversation,
  HealedCall,
  HealedImage,
  HealedResult,
  HealedText,
  HealedThinking,
  OpaqueBlock,
  OpaqueSource,
  PictureType,
  RequestFormat,
  Turn,
  UserBlock,
  UserTurn,
} from "./request/format.ts";
export {
  foldSystem,
  type HealedTool,
  isBlank,
  type ObjectSchema,
  refuseEmptySchemas,
} from "./request/format.ts";
export { RequestWriter } from "./request/json.ts";
export {
  type OpenaiChatMessage,
  type OpenaiChatPart,
  type OpenaiChatRequest,
  type OpenaiChatTool,
  type OpenaiChatToolCall,
  type OpenaiResponsesItem,
  type OpenaiResponsesPart,
  type OpenaiResponsesRequest,
  type OpenaiResponsesTool,
  openaiChatFormat,
  openaiResponsesFormat,
  requestFormats,
} from "./request/openai.ts";
export {
  buildRequest,
  detachImages,
  type HealOptions,
  heal,
  healedImage,
  NO_OUTPUT,
  NO_RESULT,
  OPENING,
  type RequestOptions,
  runningLoop,
} from "./request/request.ts";
export { blockBytes, estimateBytes, totalBytes } from "./request/size.ts";
export {
  bashExecutionText,
  branchSummaryText,
  compactionSummaryText,
  promptText,
} from "./request/wording.ts";
export { assertWritable, readDrafts } from "./store/append.ts";
export {
  ForkLines,
  type ForkPlan,
  type ForkPosition,
  forkHeader,
  forkLines,
  planFork,
} from "./store/fork.ts";
export { type ListedAt, listedMessage, listingOf } from "./store/listing.ts";
export { GrowingBytes, MemoryLeases, memoryLog, memoryStore } from "./store/memory-store.ts";
export {
  type AppendOptions,
  type Drafts,
  openWindow,
  type SessionChange,
  type SessionObserver,
  SessionTree,
} from "./store/session-tree.ts";
export type {
  Durability,
  LeaseOptions,
  LineAppendOptions,
  LogAppend,
  OpenMode,
  SessionLease,
  SessionListing,
  SessionLog,
  SessionStore,
  StoreListOptions,
} from "./store/store.ts";
export {
  type LineUpgrade,
  lineUpgrade,
  type UpgradedLog,
  type UpgradeMemory,
  upgradeLog,
} from "./store/upgrade.ts";
export type { IdHashes } from "./tree/columns.ts";
export { IdHash } from "./tree/columns.ts";
export {
  type DrawnPart,
  DrawnTree,
  type DrawOptions,
  drawTree,
  drawTreeLines,
  graphemes,
  type TreeShape,
} from "./tree/draw.ts";
export { LineIntake, type LineSource } from "./tree/intake.ts";
export {
  type Branch,
  branches,
  type EntryRows,
  type LabelInForce,
  labelsInForce,
  leafOf,
  leafRowAt,
  movingRow,
  nameEntry,
  referenceIssues,
  roleAt,
  rowsOf,
  sessionName,
  tipRows,
} from "./tree/queries.ts";
export { EntryIndex, ORPHAN, ROOT, type RowIndex } from "./tree/rows.ts";
export {
  ChildIndex,
  commonAncestor,
  commonAncestorRow,
  isOnPath,
  pathOf,
  pathRows,
  pathRowsOf,
  Tree,
} from "./tree/tree.ts";
