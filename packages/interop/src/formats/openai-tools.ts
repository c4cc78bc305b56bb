import { isRecord, type ToolDefinition } from "@espalier/session-tree";
import type { FormatIssues } from "./format-issue.ts";

/** Function tools as the Responses API writes them. Other tools belong to a request, not to a conversation. */
export function readOpenaiTools(tools: readonly unknown[], issues: FormatIssues): ToolDefinition[] {
  return tools.flatMap((tool, at): ToolDefinition[] => {
    const path = `tools[${at}]`;
    const { type, name, description, parameters, strict, ...rest } = isRecord(tool) ? tool : {};
    if (type !== "function" || typeof name !== "string") {
      issues.add("dropped", "tool", path, "A tool that is no function has no place in a session.");
      return [];
    }
    issues.dropped([...(strict === true ? ["strict"] : []), ...Object.keys(rest)], path);
    const described = typeof description === "string" ? { description } : {};
    return [{ name, ...described, ...(isRecord(parameters) ? { parameters } : {}) }];
  });
}
