// The reference agent: one turn, readable from top to bottom.
export {
  Agent,
  type AgentEvent,
  type AgentOptions,
  createAgent,
  listFilesTool,
  MaxIterations,
  queryHistoryTool,
  type RunOptions,
  readFileTool,
  searchTextTool,
  type Tool,
  type ToolOutput,
  textOutput,
} from "@espalier/agent";
export { isContextOverflow } from "@espalier/compaction";
