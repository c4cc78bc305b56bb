export {
  Agent,
  type AgentEvent,
  type AgentListener,
  type AgentOptions,
  createAgent,
  MaxIterations,
  QUEUED,
  type QueuedInput,
  type RunOptions,
  type SummaryWriter,
} from "./agent.ts";
export { type Tool, type ToolContext, type ToolOutput, textOutput } from "./tool.ts";
export { listFilesTool, readFileTool, searchTextTool } from "./tools/files.ts";
export { queryHistoryTool } from "./tools/query-history.ts";
