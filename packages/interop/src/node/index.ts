export { agentOfFile } from "./agent-of-file.ts";
export type { FoundFile } from "./found-file.ts";
export type { ImportReport } from "./import-report.ts";
export { type ImportOptions, importSessions } from "./import-sessions.ts";
export { type Environment, type LocalAgent, localAgents } from "./local-agent.ts";
export { SourceFiles } from "./source-files.ts";
export type { Summarize } from "./summarise-opaque.ts";
export { TemporaryFile } from "./temporary-file.ts";
