import { type CompactionSettings, DEFAULT_COMPACTION_SETTINGS } from "@espalier/compaction";
import type { CompactSessionOptions, Session } from "@espalier/engine";
import { estimateTotal } from "@espalier/session-tree";
import type { AgentOptions } from "./agent-options.ts";
import type { Model } from "./model.ts";
import { definitionOf } from "./tool.ts";

/** What compactions of an agent's session go by. */
export interface Limits extends Pick<CompactSessionOptions, "summarizer" | "fallback"> {
  settings: CompactionSettings;
  /** Tokens of system prompt and tools, as the policy counts. */
  overheadTokens: number;
}

/**
 * The window is the model's, and the model writes the summaries, unless the session names somebody else for it. Nobody
 * named the model for that, so the extractive summarizer steps in when it fails.
 */
export function limitsOf(
  { session, system = "", tools = [] }: Pick<AgentOptions, "session" | "system" | "tools">,
  { contextWindow, summarizer }: Model,
): Limits {
  const settings = { ...DEFAULT_COMPACTION_SETTINGS, ...session.options.compaction, contextWindow };
  const toolsAdded = tools.map(definitionOf);
  const isNamed = session.options.summarizer !== undefined;
  return {
    settings,
    overheadTokens: session.policy.estimate({ role: "system", content: system, toolsAdded, timestamp: 0 }),
    ...(summarizer && !isNamed ? { summarizer, fallback: session.options.fallback ?? true } : {}),
  };
}

/** What a request that is too long is made of, in tokens. */
export function breakdownOf(session: Session, { settings, overheadTokens }: Limits) {
  const { messages } = session.context;
  const newest = messages.findLast(({ role }) => role === "user");
  return {
    systemAndTools: overheadTokens,
    newestUserMessage: estimateTotal(newest ? [newest] : []),
    context: estimateTotal(messages),
    contextWindow: settings.contextWindow,
  };
}
