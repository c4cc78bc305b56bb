import {
  queryHistoryTool as definition,
  type ReadableSession,
  runQueryHistory,
} from "@espalier/compaction/policies";
import type { Tool } from "../tool.ts";

/** Makes a tool that finds original messages of the session, including those that only a summary covers. */
export function queryHistoryTool(session: ReadableSession): Tool {
  return { ...definition, run: async (input) => runQueryHistory(session, input) };
}
