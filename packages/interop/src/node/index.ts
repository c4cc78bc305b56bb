export type { Environment, ImportOptions, LocalAgent, Summarize } from "./import-sessions.ts";
export { agentOfFile, importSessions, localAgents } from "./import-sessions.ts";
export type { FoundFile } from "./sources.ts";
export { SourceFiles, TemporaryFile } from "./sources.ts";
export type { ImportReport } from "./write-draft.ts";
