export { Agent, createAgent } from "./agent.ts";
export { MaxIterations } from "./agent-error.ts";
export { type AnthropicModelOptions, anthropicModel, DEFAULT_MODEL } from "./anthropic-model.ts";
export type { AgentEvent, AgentListener, AgentOptions, RunOptions, SummaryWriter } from "./limits.ts";
export type { Model, ModelEvent, StreamOptions } from "./model.ts";
export { InputQueue, QUEUED, type QueuedInput } from "./run-log.ts";
export {
  CUT_OFF,
  INTERRUPTED,
  NOT_RUN,
  type RunToolsOptions,
  runTool,
  type Tool,
  type ToolContext,
  type ToolOutput,
  textOutput,
} from "./tool.ts";
export { listFilesTool, readFileTool, searchTextTool } from "./tools/files.ts";
export { queryHistoryTool } from "./tools/query-history.ts";
export { type AfterAnswer, afterAnswer } from "./turn.ts";
