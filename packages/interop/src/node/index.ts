export { type ContinuedSession, type ContinueOptions, continueSession } from "./continue-session.ts";
export { type ImportChangedOptions, importChanged } from "./import-changed.ts";
export type { Environment, FoundSessions, ImportOptions, LocalAgent, Summarize } from "./import-sessions.ts";
export { agentOfFile, describeFound, foundSessions, importSessions, localAgents } from "./import-sessions.ts";
export type { FoundFile } from "./sources.ts";
export { SourceFiles, TemporaryFile } from "./sources.ts";
export type { ImportReport } from "./write-draft.ts";
