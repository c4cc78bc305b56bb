import { type CompactionSettings, DEFAULT_COMPACTION_SETTINGS, windowInForce } from "@espalier/compaction";
import type { CompactSessionOptions, Session } from "@espalier/engine";
import { estimateTotal } from "@espalier/session-tree";
import { withWindow } from "@espalier/summarizer";
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

/**
 * The window is the model's, less where its provider has said so, and so are the summaries, unless the session names
 * somebody else for them.
 */
export function limitsOf(
  { session, system = "", tools = [] }: Pick<AgentOptions, "session" | "system" | "tools">,
  model: Model,
): Limits {
  const contextWindow = windowOf(session, model);
  const toolsAdded = tools.map(definitionOf);
  return {
    settings: { ...DEFAULT_COMPACTION_SETTINGS, ...session.options.compaction, contextWindow },
    overheadTokens: session.policy.estimate({ role: "system", content: system, toolsAdded, timestamp: 0 }),
    ...writerOf(session, model),
  };
}

/** Tokens that a model reads: what it says of itself, or less, where its provider said so in this session. */
export const windowOf = ({ core }: Session, model: Model): number =>
  windowInForce(model.contextWindow, core.window.entries, model);

/** The model, where the session names nobody. Nobody named it for that: the extractive summarizer steps in when it fails. */
export function writerOf(session: Session, model: Model): SummaryWriter {
  const { options } = session;
  const { summarizer } = model;
  if (!summarizer || options.summarizer) return {};
  return {
    summarizer: withWindow(summarizer, windowOf(session, model)),
    fallback: options.fallback ?? true,
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
