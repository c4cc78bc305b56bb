export { type ContinuedSession, type ContinueOptions, continueSession } from "./continue-session.ts";
export {
  type ImportChangedOptions,
  type ImportOptions,
  importChanged,
  importSessions,
  type Summarize,
} from "./import-sessions.ts";
export type { Environment, FoundSessions, LocalAgent } from "./local-agents.ts";
export { agentOfFile, describeFound, foundSessions, localAgents } from "./local-agents.ts";
export type { FoundFile } from "./sources.ts";
export { SourceFiles, TemporaryFile } from "./sources.ts";
export type { ImportReport } from "./write-draft.ts";
