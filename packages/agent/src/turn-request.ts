import { buildRequest, type SessionContext } from "@espalier/session-tree";
import type { AgentOptions } from "./agent-options.ts";
import type { Limits } from "./limits.ts";
import type { Model } from "./model.ts";
import { definitionOf } from "./tool.ts";

/** The request that the tree gives at the leaf, after the policy has done what it does before one. */
export async function turnRequest(
  { session, system, tools = [] }: Pick<AgentOptions, "session" | "system" | "tools">,
  model: Model,
  limits: Limits,
  signal: AbortSignal,
): Promise<{ request: unknown; context: SessionContext }> {
  const definitions = tools.map(definitionOf);
  const prepared = await session.prepareRequest({ ...limits, system, tools: definitions, signal });
  signal.throwIfAborted();
  const { context } = prepared;
  const { provider, modelId, format } = model;
  const request = buildRequest(context, {
    format,
    model: { provider, modelId },
    system: prepared.system,
    tools: definitions,
  });
  return { request, context };
}
