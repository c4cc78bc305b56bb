import type { Policy } from "@espalier/compaction";
import { CHARS_PER_TOKEN, estimateBytes, type ToolDefinition } from "@espalier/session-tree";

/** What goes out with every request besides the context. */
export interface RequestExtras {
  system?: string | undefined;
  tools?: readonly ToolDefinition[] | undefined;
  /** Their size in tokens; by default as the policy counts. */
  overheadTokens?: number;
}

/** Tokens of system prompt and tools, as the policy counts. */
export function overheadOf(policy: Policy, { system, tools = [], overheadTokens }: RequestExtras): number {
  if (overheadTokens !== undefined) return overheadTokens;
  if (!system && tools.length === 0) return 0;
  return policy.estimate({
    role: "system",
    content: system ?? "",
    toolsAdded: [...tools],
    timestamp: 0,
  });
}

/** Bytes of system prompt and tools; where only their tokens are known, what these have at least. */
export function overheadBytesOf({ system = "", tools = [] }: RequestExtras, overheadTokens: number): number {
  const told = estimateBytes({ role: "system", content: system, toolsAdded: [...tools], timestamp: 0 });
  return Math.max(told, overheadTokens * CHARS_PER_TOKEN);
}
