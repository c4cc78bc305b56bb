export type { AppendOptions } from "./append-options.ts";
export { assertWritable } from "./assert-writable.ts";
export { type Branch, branches, tipRows } from "./branches.ts";
export { buildSessionContext } from "./build-session-context.ts";
export { ChildIndex } from "./children.ts";
export { contextOfPath, extendContext, type ProjectedEntry, projectPath } from "./context.ts";
export { graphemes } from "./cut-to-width.ts";
export { DAMAGED } from "./damaged.ts";
export { type DrawnPart, type DrawOptions, drawTree, drawTreeLines } from "./draw-tree.ts";
export { DrawnTree, type TreeShape } from "./drawn-tree.ts";
export { type BranchSummaryEntry, branchSummary } from "./entries/branch-summary.ts";
export { type CompactionEntry, compaction } from "./entries/compaction.ts";
export { type ContextEditEntry, contextEdit } from "./entries/context-edit.ts";
export { type CustomEntry, custom, isCustom } from "./entries/custom.ts";
export { type CustomMessageEntry, customMessage } from "./entries/custom-message.ts";
export { type LabelEntry, label } from "./entries/label.ts";
export { type LeafEntry, leaf } from "./entries/leaf.ts";
export { isFailedAnswerEntry, isMessage, type MessageEntry, message } from "./entries/message.ts";
export { type ModelChangeEntry, modelChange } from "./entries/model-change.ts";
export { type SessionInfoEntry, sessionInfo } from "./entries/session-info.ts";
export { type ThinkingLevelChangeEntry, thinkingLevelChange } from "./entries/thinking-level-change.ts";
export { type UsageEntry, usage } from "./entries/usage.ts";
export type { ContextEdit, Entry, EntryBehaviour, EntryKind, FilledIn, NewEntry, Settings } from "./entry.ts";
export { defineEntry } from "./entry.ts";
export { entryFields } from "./entry-fields.ts";
export { EntryIndex } from "./entry-index.ts";
export { entryKinds, kindOf } from "./entry-kinds.ts";
export type { EntryPreparation } from "./entry-preparation.ts";
export { EntryScan, scanEntry } from "./entry-scan.ts";
export { firstHeader } from "./first-header.ts";
export { type ForkPlan, type ForkPosition, forkHeader, planFork } from "./fork.ts";
export { ForkLines, forkLines } from "./fork-lines.ts";
export { headerLine, parsedHeader } from "./given-header.ts";
export { GrowingBytes } from "./growing-bytes.ts";
export { IdHash } from "./id-hash.ts";
export type { IdHashes } from "./id-hashes.ts";
export { createId, deriveId, ID_LENGTH, isSessionId } from "./identifier.ts";
export { type LabelInForce, labelsInForce, nameEntry, rowsOf, sessionName } from "./labels.ts";
export { type EntryRows, leafOf, leafRowAt, movingRow } from "./leaf.ts";
export { LineIntake } from "./line-intake.ts";
export { type LineUpgrade, lineUpgrade, type UpgradeMemory } from "./line-upgrade.ts";
export type { LinesAgain } from "./lines-again.ts";
export { type ListedAt, listedMessage, listingOf } from "./listing.ts";
export { MemoryLeases } from "./memory-leases.ts";
export { memoryLog } from "./memory-log.ts";
export { memoryStore } from "./memory-store.ts";
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
} from "./message.ts";
export { contentBlocks, isFailedAnswer, messageText, toolCalls } from "./message.ts";
export { commonAncestor, commonAncestorRow, isOnPath, pathOf, pathRows, pathRowsOf } from "./path.ts";
export { type PathWindow, PathWindowBuilder } from "./path-window.ts";
export { pathWindowAt } from "./path-window-at.ts";
export { fieldText, plainJson, plainLine, plainText } from "./plain-text.ts";
export { readDrafts } from "./prepare-append.ts";
export { promptText } from "./prompt-text.ts";
export { readPathWindow } from "./read-path-window.ts";
export { redactEntry, redactFolder, redactHeader, redactMessage } from "./redact/redact-entry.ts";
export { redactText } from "./redact/redact-text.ts";
export { type FieldRule, type Redact, Redactor, type RedactorOptions } from "./redact/redactor.ts";
export { referenceIssues } from "./reference-issues.ts";
export {
  type AnthropicAnswerBlock,
  type AnthropicContent,
  type AnthropicMessage,
  type AnthropicRequest,
  type AnthropicToolResult,
  anthropicFormat,
} from "./request/anthropic-format.ts";
export { isBlank } from "./request/blank.ts";
export { buildRequest, type RequestOptions } from "./request/build-request.ts";
export { type HealOptions, heal, NO_OUTPUT, NO_RESULT, OPENING } from "./request/heal.ts";
export { healedImage } from "./request/image.ts";
export {
  type OpenaiChatMessage,
  type OpenaiChatPart,
  type OpenaiChatRequest,
  type OpenaiChatTool,
  type OpenaiChatToolCall,
  openaiChatFormat,
} from "./request/openai-chat-format.ts";
export {
  type OpenaiResponsesItem,
  type OpenaiResponsesPart,
  type OpenaiResponsesRequest,
  type OpenaiResponsesTool,
  openaiResponsesFormat,
} from "./request/openai-responses-format.ts";
export { isRecord } from "./request/record.ts";
export { blockBytes, estimateBytes, totalBytes } from "./request/request-bytes.ts";
export type { Carried, Conversation, RequestFormat } from "./request/request-format.ts";
export { requestFormats } from "./request/request-formats.ts";
export { RequestWriter } from "./request/request-writer.ts";
export { type HealedTool, type ObjectSchema, refuseEmptySchemas } from "./request/system-prompt.ts";
export type {
  AnswerBlock,
  AssistantTurn,
  HealedCall,
  HealedImage,
  HealedResult,
  HealedText,
  HealedThinking,
  PictureType,
  Turn,
  UserBlock,
  UserTurn,
} from "./request/turn.ts";
export { bashExecutionText, branchSummaryText, compactionSummaryText } from "./request/wrapping.ts";
export { roleAt } from "./role-at.ts";
export { ORPHAN, ROOT, type RowIndex } from "./row-index.ts";
export type { SessionChange, SessionObserver } from "./session-change.ts";
export type { SessionContext } from "./session-context.ts";
export {
  FORMAT_VERSION,
  type ImportSource,
  type ParentLink,
  parseHeader,
  type SessionHeader,
} from "./session-header.ts";
export { isDamage, type SessionIssue, type SessionIssueKind } from "./session-issue.ts";
export { readLineParts, readSessionLine, type SessionLine } from "./session-line.ts";
export { sessionRef } from "./session-ref.ts";
export type {
  Durability,
  LeaseOptions,
  LineAppendOptions,
  LogAppend,
  OpenMode,
  SessionLease,
  SessionListing,
  SessionLog,
  SessionRef,
  SessionStore,
  StoreListOptions,
} from "./session-store.ts";
export { SessionTree } from "./session-tree.ts";
export { type LeaseHolder, SessionTreeError, type SessionTreeErrorCode } from "./session-tree-error.ts";
export { applySettings, NO_SETTINGS, settingsAlong } from "./settings.ts";
export { CHARS_PER_TOKEN, estimateTokens, estimateTotal, IMAGE_TOKENS } from "./tokens.ts";
export { Tree } from "./tree.ts";
export { type UpgradedLog, upgradeLog } from "./upgrade.ts";
export type { WaitingRows } from "./waiting-rows.ts";
export { QUEUE_LIMITS, type QueueLimits } from "./write-queue.ts";
export { WRITER } from "./writer.ts";
