export { claudeCodeImporter } from "./claude-code/claude-code-importer.ts";
export { codexImporter } from "./codex/codex-importer.ts";
export type { SessionDocument } from "./export/export-json.ts";
export { type ExportFormat, type ExportOptions, exportSession } from "./export/export-session.ts";
export type { ExportableSession } from "./export/export-source.ts";
export { aiSdk5Format, aiSdkFormat } from "./formats/ai-sdk-format.ts";
export type {
  AiSdkCall,
  AiSdkImage,
  AiSdkMedia,
  AiSdkMediaType,
  AiSdkMessage,
  AiSdkOptions,
  AiSdkOutput,
  AiSdkReasoning,
  AiSdkRequest,
  AiSdkResult,
  AiSdkText,
  AiSdkTool,
  JsonValue,
} from "./formats/ai-sdk-message.ts";
export type { ConversationSource, WriteOptions } from "./formats/conversation-source.ts";
export type { FormatIssue, FormatIssueKind } from "./formats/format-issue.ts";
export { fromAiSdk } from "./formats/from-ai-sdk.ts";
export { fromAnthropic } from "./formats/from-anthropic.ts";
export { fromOpenaiChat } from "./formats/from-openai-chat.ts";
export { fromOpenaiResponses } from "./formats/from-openai-responses.ts";
export type { ConversationOptions, ImportedConversation } from "./formats/imported-conversation.ts";
export type { FormatName, Native, NativeBlock, RemoteImageBlock } from "./formats/native.ts";
export { nativeFormats } from "./formats/native-formats.ts";
export { toAiSdk } from "./formats/to-ai-sdk.ts";
export { toAnthropic } from "./formats/to-anthropic.ts";
export { toOpenaiChat } from "./formats/to-openai-chat.ts";
export { toOpenaiResponses } from "./formats/to-openai-responses.ts";
export type {
  DraftOptions,
  KnownEntry,
  SessionDraft,
  SessionImporter,
  Surroundings,
} from "./import-draft.ts";
export { ALONE } from "./import-draft.ts";
export { InteropError, type InteropErrorCode } from "./import-error.ts";
export { type ImportIssue, type ImportIssueKind, ImportIssues, LEFT_OUT } from "./import-issue.ts";
export type { SourceFile } from "./import-source.ts";
export { piImporter } from "./pi/pi-importer.ts";
export { type Page, type PageFile, ScratchSpace } from "./scratch/scratch-space.ts";
export type { SessionCounts } from "./session-counts.ts";
