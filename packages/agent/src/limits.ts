import { type CompactionSettings, DEFAULT_COMPACTION_SETTINGS } from "@espalier/compaction";
import type { CompactSessionOptions, Session } from "@espalier/engine";
import { estimateTotal } from "@espalier/session-tree";
import type { AgentOptions } from "./agent-options.ts";
import type { Model } from "./model.ts";
import { definitionOf } from "./tool.ts";

/** Who writes an agent's summaries. Absent: whom the session names. */
export type SummaryWriter = Pick<CompactSessionOptions, "summarizer" | "fallback">;

/** What compactions of an agent's session go by. */
export interface Limits extends SummaryWriter {
  settings: CompactionSettings;
  /** Tokens of system prompt and tools, as the policy counts. */
  overheadTokens: number;
}

/** The window is the model's, and so are the summaries, unless the session names somebody else for them. */
export function limitsOf(
  { session, system = "", tools = [] }: Pick<AgentOptions, "session" | "system" | "tools">,
  model: Model,
): Limits {
  const { contextWindow } = model;
  const toolsAdded = tools.map(definitionOf);
  return {
    settings: { ...DEFAULT_COMPACTION_SETTINGS, ...session.options.compaction, contextWindow },
    overheadTokens: session.policy.estimate({ role: "system", content: system, toolsAdded, timestamp: 0 }),
    ...writerOf(session, model),
  };
}

/** The model, where the session names nobody. Nobody named it for that: the extractive summarizer steps in when it fails. */
export function writerOf({ options }: Session, { summarizer }: Model): SummaryWriter {
  if (!summarizer || options.summarizer) return {};
  return { summarizer, fallback: options.fallback ?? true };
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
