export type { AgentListener, QueuedInput, SummaryWriter } from "./agent.ts";
export {
  Agent,
  type AgentEvent,
  type AgentOptions,
  createAgent,
  MaxIterations,
  QUEUED,
  type RunOptions,
} from "./agent.ts";
export { type Tool, type ToolContext, type ToolOutput, textOutput } from "./tool.ts";
export { listFilesTool, readFileTool, searchTextTool } from "./tools/files.ts";
export { queryHistoryTool } from "./tools/query-history.ts";
