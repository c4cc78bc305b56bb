export { claudeCodeImporter } from "./claude-code/importer.ts";
export { codexImporter } from "./codex/importer.ts";
export {
  exportNative,
  type NativeAgent,
  type NativeOptions,
  type NativeReport,
  nativeAgents,
} from "./export/export-native.ts";
export {
  type ExportFormat,
  type ExportOptions,
  exportSession,
  nativeFormats,
  omittedEntries,
  type SessionDocument,
} from "./export/export-session.ts";
export type { ExportableSession } from "./export/source.ts";
export type {
  AiSdkCall,
  AiSdkImage,
  AiSdkMedia,
  AiSdkMessage,
  AiSdkOptions,
  AiSdkOutput,
  AiSdkReasoning,
  AiSdkRequest,
  AiSdkResult,
  AiSdkText,
  AiSdkTool,
  JsonValue,
} from "./formats/ai-sdk.ts";
export { aiSdkFormat, reasoningParts, toAiSdk } from "./formats/ai-sdk.ts";
export { fromAnthropic, toAnthropic } from "./formats/anthropic.ts";
export type {
  ConversationOptions,
  ConversationSource,
  FormatIssue,
  FormatIssueKind,
  ImportedConversation,
  WriteOptions,
} from "./formats/conversation.ts";
export { toolOf } from "./formats/conversation.ts";
export { fromAiSdk } from "./formats/from-ai-sdk.ts";
export { type FormatName, type Native, type NativeBlock, nativeFor, plainJson } from "./formats/native.ts";
export { fromOpenaiChat, fromOpenaiResponses, toOpenaiChat, toOpenaiResponses } from "./formats/openai.ts";
export {
  agentNames,
  agentTitle,
  type DraftOptions,
  type KnownEntry,
  type OtherAgent,
  otherAgents,
  type SessionCounts,
  type SessionDraft,
  type SessionImporter,
  type SiblingFiles,
  type SourceFile,
} from "./import/draft.ts";
export { type ImportIssue, type ImportIssueKind, ImportIssues } from "./import/issue.ts";
export { piImporter } from "./pi/pi-sessions.ts";
export { type Page, type PageFile, ScratchSpace } from "./scratch/space.ts";
