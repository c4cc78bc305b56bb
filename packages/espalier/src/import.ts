// Sessions of other agents in; contexts, pages and requests for other programs out.
export {
  aiSdk5Format,
  aiSdkFormat,
  claudeCodeImporter,
  codexImporter,
  type ExportFormat,
  exportSession,
  fromAiSdk,
  fromAnthropic,
  fromOpenaiChat,
  fromOpenaiResponses,
  type ImportIssue,
  nativeFormats,
  piImporter,
  type SessionImporter,
  type SourceFile,
  toAiSdk,
  toAnthropic,
  toOpenaiChat,
  toOpenaiResponses,
} from "@espalier/interop";
export {
  type ImportOptions,
  type ImportReport,
  importSessions,
  type LocalAgent,
  localAgents,
} from "@espalier/interop/node";
