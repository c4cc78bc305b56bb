export { claudeCodeImporter } from "./claude-code/importer.ts";
export { codexImporter } from "./codex/importer.ts";
export type { SessionDocument } from "./export/export-session.ts";
export { type ExportFormat, type ExportOptions, exportSession } from "./export/export-session.ts";
export type { ExportableSession } from "./export/source.ts";
export { aiSdk5Format, aiSdkFormat, fromAiSdk, toAiSdk } from "./formats/ai-sdk.ts";
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
} from "./formats/ai-sdk-blocks.ts";
export { fromAnthropic, toAnthropic } from "./formats/anthropic.ts";
export type {
  ConversationOptions,
  ConversationSource,
  FormatIssue,
  FormatIssueKind,
  ImportedConversation,
  WriteOptions,
} from "./formats/conversation.ts";
export type { FormatName, Native, NativeBlock, RemoteImageBlock } from "./formats/native.ts";
export { nativeFormats } from "./formats/native-formats.ts";
export { fromOpenaiChat, toOpenaiChat } from "./formats/openai-chat.ts";
export { fromOpenaiResponses, toOpenaiResponses } from "./formats/openai-responses.ts";
export type {
  DraftOptions,
  KnownEntry,
  SessionCounts,
  SessionDraft,
  SessionImporter,
  SourceFile,
  Surroundings,
} from "./import/draft.ts";
export { ALONE } from "./import/draft.ts";
export { type ImportIssue, type ImportIssueKind, ImportIssues, LEFT_OUT } from "./import/issue.ts";
export { piImporter } from "./pi/pi-importer.ts";
export { type Page, type PageFile, ScratchSpace } from "./scratch/space.ts";
