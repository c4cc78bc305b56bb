export { agentOfFile, type Environment, type LocalAgent, localAgents } from "./agents.ts";
export type { Summarize } from "./import-sessions.ts";
export { type ImportOptions, importSessions } from "./import-sessions.ts";
export type { FoundFile } from "./sources.ts";
export { SourceFiles, TemporaryFile } from "./sources.ts";
export type { ImportReport } from "./write-draft.ts";
